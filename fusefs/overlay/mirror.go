package overlay

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// ClearMirrors removes the empty counterparts a directory has in the overlay
// roots; one that holds something makes the directory not empty.
func (l *Layers) ClearMirrors(parent *inode.Node, name string, p Place) syscall.Errno {
	if p.Root != 0 {
		return 0 // below an overlay everything is in the overlay
	}
	for i := 1; i < l.writableRoots(); i++ {
		d, e := l.Dir(parent, i)
		if e != 0 {
			continue // nothing of it in this root
		}
		err := unix.Unlinkat(d.FD, name, unix.AT_REMOVEDIR)
		l.dirs.put(d)
		switch e := backing.Errno(err); e {
		case 0:
			l.Made(parent, name, -1)
		case syscall.ENOENT, syscall.ENOTDIR:
		case syscall.EEXIST:
			return syscall.ENOTEMPTY
		default:
			return e
		}
	}
	return 0
}

// Mirrored reports whether a directory has a counterpart in another root. Such a
// directory cannot be moved in one step.
func (l *Layers) Mirrored(parent *inode.Node, name string, root int) bool {
	if root != 0 {
		return false // below an overlay everything is in the overlay
	}
	for i := 1; i < l.writableRoots(); i++ {
		d, e := l.Dir(parent, i)
		if e != 0 {
			continue
		}
		_, e = backing.StatAt(d.FD, name)
		l.dirs.put(d)
		if e == 0 {
			return true
		}
	}
	return false
}

func (l *Layers) mirror(n *inode.Node, root int) (*DirFD, syscall.Errno) {
	if d, e := l.Dir(n, root); e != syscall.ENOENT {
		return d, e
	}
	r, ok := l.Tree.Sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	st, e := l.Stat(n)
	if e != 0 {
		return nil, e
	}
	up, e := l.mirror(r.Parent, root)
	if e != 0 {
		return nil, e
	}
	defer l.dirs.put(up)
	switch e := backing.Errno(unix.Mkdirat(up.FD, r.Name, 0o700)); e {
	case 0:
		l.Made(r.Parent, r.Name, 1)
	case syscall.EEXIST:
	default:
		return nil, e
	}
	d, e := l.Dir(n, root)
	if e != 0 {
		return nil, e
	}
	if e := backing.SetOwnerMode(d.FD, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		l.dirs.put(d)
		return nil, e
	}
	if n.Root() == l.lower {
		// From here on the directory is the tree's; what shows in it stays.
		up, e := backing.StatAt(d.FD, "")
		if e != 0 {
			l.dirs.put(d)
			return nil, e
		}
		l.rekey(n, l.Undated.KeyOf(root, &up))
		n.SetMerged()
	}
	return d, 0
}
