package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// route is the backing root a name of parent lives in. Called with the name lock held.
func (fs *FS) route(parent *inode.Node, name string) int {
	switch up := parent.Root(); {
	case len(fs.roots) == 1:
		return 0
	case up != 0 && up != fs.lower:
		return up // below an overlay everything is in the overlay
	}
	if root, ok := fs.tree.Routed(parent, name, fs.generation()); ok && root != fs.lower {
		return root
	}
	path := fs.tree.Child(parent, name)
	root := fs.routePath(path)
	if root == 0 {
		root = fs.settle(parent, name, path)
	}
	return root
}

func (fs *FS) routePath(path string) int {
	if i := fs.guard.Route(path); i >= 0 && i < len(fs.roots) {
		return i
	}
	return 0
}

// dir returns the directory n as it is in a root; give it back with dirs.put.
// The way from the root is walked one component at a time, so no path is too
// long. Called with the name lock held.
func (fs *FS) dir(n *inode.Node, root int) (*dirFD, syscall.Errno) {
	if n == fs.tree.Root {
		return &fs.top[root], 0
	}
	if root == fs.lower {
		return fs.lowerDir(n)
	}
	k := dirKey{n, root}
	if d := fs.dirs.get(k); d != nil {
		return d, 0
	}
	r, ok := fs.tree.Sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	up, e := fs.dir(r.Parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	fd, e := backing.OpenAt(up.fd, r.Name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if e != 0 {
		if root != n.Root() {
			return nil, e
		}
		return nil, backing.Stale(e)
	}
	if root == n.Root() {
		st, e := backing.StatAt(fd, "")
		if e == 0 && !n.Is(&st) {
			e = syscall.ESTALE
		}
		if e != 0 {
			backing.Close(fd)
			return nil, e
		}
	}
	return fs.dirs.add(k, fd), 0
}

// place is a name resolved to a directory descriptor and a root.
type place struct {
	dir  *dirFD
	root int
	path string // only where something shows from below
}

// at resolves the directory a name of parent lives in. Called with the name lock held.
func (fs *FS) at(parent *inode.Node, name string) (place, syscall.Errno) {
	p := place{root: fs.route(parent, name)}
	if fs.lower >= 0 {
		p.path = fs.tree.Child(parent, name)
	}
	var e syscall.Errno
	p.dir, e = fs.dir(parent, p.root)
	return p, e
}

// atNew is at for a name about to be created: in an overlay root the
// directories above it may not exist yet, and are made like those they mirror.
func (fs *FS) atNew(parent *inode.Node, name string) (place, syscall.Errno) {
	p, e := fs.at(parent, name)
	if p.root == fs.lower {
		if e == 0 {
			fs.dirs.put(p.dir)
			e = syscall.EEXIST
		}
		return p, e
	}
	if e == syscall.ENOENT && p.root != parent.Root() {
		if p.dir, e = fs.mirror(parent, p.root); e == 0 {
			return p, 0
		}
	}
	return p, e
}

func (fs *FS) mirror(n *inode.Node, root int) (*dirFD, syscall.Errno) {
	if d, e := fs.dir(n, root); e != syscall.ENOENT {
		return d, e
	}
	r, ok := fs.tree.Sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	st, e := fs.stat(n)
	if e != 0 {
		return nil, e
	}
	up, e := fs.mirror(r.Parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	switch e := backing.Errno(unix.Mkdirat(up.fd, r.Name, 0o700)); e {
	case 0:
		fs.counted(r.Parent, r.Name, 1)
	case syscall.EEXIST:
	default:
		return nil, e
	}
	d, e := fs.dir(n, root)
	if e != 0 {
		return nil, e
	}
	if e := backing.SetOwnerMode(d.fd, int(st.Uid), int(st.Gid), uint32(st.Mode)&0o7777); e != 0 {
		fs.dirs.put(d)
		return nil, e
	}
	if n.Root() == fs.lower {
		// From here on the directory is the tree's; what shows in it stays.
		up, e := backing.StatAt(d.fd, "")
		if e != 0 {
			fs.dirs.put(d)
			return nil, e
		}
		fs.rekey(n, inode.KeyOf(root, &up))
		n.Merged.Store(true)
	}
	return d, 0
}
