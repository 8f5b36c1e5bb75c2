package overlay

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// Open opens the object by one of its names, or by a descriptor of an open
// file once it has none, and checks that it is the one that was meant. Called
// with the name lock held.
func (l *Layers) Open(n *inode.Node, flags int) (int, unix.Statx_t, syscall.Errno) {
	if dir, ok := l.fixed(n); ok {
		fd, e := backing.OpenAt(dir, ".", flags, 0)
		st, e2 := backing.StatAt(dir, "")
		if e == 0 && e2 != 0 {
			backing.Close(fd)
			e = e2
		}
		return fd, st, e
	}
	fd, st, last := l.OpenNamed(n, flags)
	if last == 0 {
		return fd, st, 0
	}
	if fd, ok := n.Files.Dup(); ok {
		st, e := backing.StatAt(fd, "")
		if e != 0 || flags&unix.O_PATH != 0 {
			return fd, st, e
		}
		defer backing.Close(fd)
		again, err := unix.Open(backing.ProcPath(fd), flags&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		return again, st, backing.Errno(err)
	}
	return -1, unix.Statx_t{}, last
}

// fixed returns the descriptor of a directory that is not found by a name.
func (l *Layers) fixed(n *inode.Node) (int, bool) {
	switch n {
	case l.Tree.Root:
		return l.roots[0], true
	case l.Tree.Work:
		return l.work.FD, true
	}
	return -1, false
}

// OpenNamed is open by name only. The open files of the inode may be locked.
func (l *Layers) OpenNamed(n *inode.Node, flags int) (int, unix.Statx_t, syscall.Errno) {
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := l.Tree.Nth(n, i)
		if !ok {
			return -1, unix.Statx_t{}, last
		}
		p, e := l.At(r.Parent, r.Name)
		if e != 0 {
			last = e
			continue
		}
		fd, e := backing.OpenAt(p.Dir.FD, r.Name, flags, 0)
		l.dirs.put(p.Dir)
		if e != 0 {
			last = backing.Stale(e)
			continue
		}
		st, e := backing.StatAt(fd, "")
		if e == 0 && n.Is(&st) {
			return fd, st, 0
		}
		backing.Close(fd)
		last = syscall.ESTALE
	}
}

// Stat reads the attributes by name, or by an open file, or from memory when
// the last link is gone. Called with the name lock held.
func (l *Layers) Stat(n *inode.Node) (unix.Statx_t, syscall.Errno) {
	if dir, ok := l.fixed(n); ok {
		return backing.StatAt(dir, "")
	}
	last := syscall.ESTALE
	for i := 0; ; i++ {
		r, ok := l.Tree.Nth(n, i)
		if !ok {
			break
		}
		p, e := l.At(r.Parent, r.Name)
		if e != 0 {
			last = backing.Stale(e)
			continue
		}
		st, e := backing.StatAt(p.Dir.FD, r.Name)
		l.dirs.put(p.Dir)
		if e == 0 && n.Is(&st) {
			return st, 0
		}
		last = syscall.ESTALE
	}
	if fd, ok := n.Files.Dup(); ok {
		defer backing.Close(fd)
		return backing.StatAt(fd, "")
	}
	return unix.Statx_t{}, last
}

// OpenContent opens an object for Guard.Publish.
func (l *Layers) OpenContent(n *inode.Node) (int, syscall.Errno) {
	l.Tree.Names.RLock()
	defer l.Tree.Names.RUnlock()
	fd, _, e := l.Open(n, unix.O_RDONLY|unix.O_NONBLOCK)
	return fd, e
}
