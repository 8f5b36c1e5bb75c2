package fusefs

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// route is the backing root a name of parent lives in. Called with ns held.
func (fs *FS) route(parent *node, name string) int {
	switch up := parent.root(); {
	case len(fs.roots) == 1:
		return 0
	case up != 0 && up != fs.lower:
		return up // below an overlay everything is in the overlay
	}
	if root, ok := fs.tree.routed(parent, name, fs.generation()); ok && root != fs.lower {
		return root
	}
	path := fs.tree.child(parent, name)
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

// routed is the root of a known name whose path is what it was when the root
// was found out: the verdict that was given then is of this generation.
func (t *tree) routed(parent *node, name string, generation uint64) (root int, ok bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	n := parent.children[name]
	if n == nil || generation == 0 || !n.only(parent, name) || n.verdict.Load()>>generationShift != generation>>generationShift {
		return 0, false
	}
	return n.root(), true
}

// dir returns the directory n as it is in a root; give it back with dirs.put.
// The way from the root is walked one component at a time, so no path is too
// long. Called with ns held.
func (fs *FS) dir(n *node, root int) (*dirFD, syscall.Errno) {
	if n == fs.tree.root {
		return &fs.top[root], 0
	}
	if root == fs.lower {
		return fs.lowerDir(n)
	}
	k := dirKey{n, root}
	if d := fs.dirs.get(k); d != nil {
		return d, 0
	}
	r, ok := fs.tree.sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	up, e := fs.dir(r.parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	fd, e := backing.OpenAt(up.fd, r.name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if e != 0 {
		if root != n.root() {
			return nil, e
		}
		return nil, backing.Stale(e)
	}
	if root == n.root() {
		st, e := backing.StatAt(fd, "")
		if e == 0 && !n.is(&st) {
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

// at resolves the directory a name of parent lives in. Called with ns held.
func (fs *FS) at(parent *node, name string) (place, syscall.Errno) {
	p := place{root: fs.route(parent, name)}
	if fs.lower >= 0 {
		p.path = fs.tree.child(parent, name)
	}
	var e syscall.Errno
	p.dir, e = fs.dir(parent, p.root)
	return p, e
}

// atNew is at for a name about to be created: in an overlay root the
// directories above it may not exist yet, and are made like those they mirror.
func (fs *FS) atNew(parent *node, name string) (place, syscall.Errno) {
	p, e := fs.at(parent, name)
	if p.root == fs.lower {
		if e == 0 {
			fs.dirs.put(p.dir)
			e = syscall.EEXIST
		}
		return p, e
	}
	if e == syscall.ENOENT && p.root != parent.root() {
		if p.dir, e = fs.mirror(parent, p.root); e == 0 {
			return p, 0
		}
	}
	return p, e
}

func (fs *FS) mirror(n *node, root int) (*dirFD, syscall.Errno) {
	if d, e := fs.dir(n, root); e != syscall.ENOENT {
		return d, e
	}
	r, ok := fs.tree.sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	st, e := fs.stat(n)
	if e != 0 {
		return nil, e
	}
	up, e := fs.mirror(r.parent, root)
	if e != 0 {
		return nil, e
	}
	defer fs.dirs.put(up)
	switch e := backing.Errno(unix.Mkdirat(up.fd, r.name, 0o700)); e {
	case 0:
		fs.counted(r.parent, r.name, 1)
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
	if n.root() == fs.lower {
		// From here on the directory is the tree's; what shows in it stays.
		up, e := backing.StatAt(d.fd, "")
		if e != 0 {
			fs.dirs.put(d)
			return nil, e
		}
		fs.rekey(n, keyOf(root, &up))
		n.merged.Store(true)
	}
	return d, 0
}
