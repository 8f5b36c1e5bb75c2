package overlay

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// route is the backing root a name of parent lives in. Called with the name lock held.
func (l *Layers) route(parent *inode.Node, name string) int {
	switch up := parent.Root(); {
	case len(l.roots) == 1:
		return 0
	case up != 0 && up != l.lower:
		return up // below an overlay everything is in the overlay
	}
	if root, ok := l.Tree.Routed(parent, name, l.Generation()); ok && root != l.lower {
		return root
	}
	path := l.Tree.Child(parent, name)
	root := l.Route(path)
	if root == 0 {
		root = l.settle(parent, name, path)
	}
	return root
}

// Route is the backing root the rules name for a path; the lower one is never it.
func (l *Layers) Route(path string) int {
	if i := l.Rules.Route(path); i >= 0 && i < len(l.roots) {
		return i
	}
	return 0
}

// Dir returns the directory n as it is in a root; give it back with Put.
// The way from the root is walked one component at a time, so no path is too
// long. Called with the name lock held.
func (l *Layers) Dir(n *inode.Node, root int) (*DirFD, syscall.Errno) {
	if n == l.Tree.Root {
		return &l.top[root], 0
	}
	if n == l.Tree.Work {
		if root != 0 {
			return nil, syscall.ENOENT
		}
		return &l.work, 0
	}
	if root == l.lower {
		return l.lowerDir(n)
	}
	k := dirKey{n, root}
	if d := l.dirs.get(k); d != nil {
		return d, 0
	}
	r, ok := l.Tree.Sole(n)
	if !ok {
		return nil, syscall.ENOENT
	}
	up, e := l.Dir(r.Parent, root)
	if e != 0 {
		return nil, e
	}
	defer l.dirs.put(up)
	fd, e := backing.OpenAt(up.FD, r.Name, unix.O_PATH|unix.O_DIRECTORY, 0)
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
	return l.dirs.add(k, fd), 0
}

// Place is a name resolved to a directory descriptor and a root.
type Place struct {
	Dir   *DirFD
	Root  int
	Lower bool   // in the lower root
	path  string // only where something shows from below
}

// At resolves the directory a name of parent lives in. Called with the name lock held.
func (l *Layers) At(parent *inode.Node, name string) (Place, syscall.Errno) {
	p := Place{Root: l.route(parent, name)}
	if l.lower >= 0 {
		p.Lower = p.Root == l.lower
		p.path = l.Tree.Child(parent, name)
	}
	var e syscall.Errno
	p.Dir, e = l.Dir(parent, p.Root)
	return p, e
}

// AtNew is at for a name about to be created: in an overlay root the
// directories above it may not exist yet, and are made like those they mirror.
func (l *Layers) AtNew(parent *inode.Node, name string) (Place, syscall.Errno) {
	p, e := l.At(parent, name)
	if p.Root == l.lower {
		if e == 0 {
			l.dirs.put(p.Dir)
			e = syscall.EEXIST
		}
		return p, e
	}
	if e == syscall.ENOENT && p.Root != parent.Root() {
		if p.Dir, e = l.mirror(parent, p.Root); e == 0 {
			return p, 0
		}
	}
	return p, e
}
