package overlay

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// A program can change a file whose last name has gone by a descriptor. If such a file must not be
// changed, the nameless copy takes its place in the descriptors only.
//
// The kernel's overlayfs cannot do that with a file of its lower layers: it copies a file to its name, where
// a whiteout or another file is now, and answers EEXIST to every change (ovl_copy_up_one in
// fs/overlayfs/copy_up.c). So the view makes that copy, too.

// stranded reports whether n may be such a file of an overlayfs. Where the kernel reads the
// file itself (passthrough), there is no way to have it read another.
func (l *Layers) stranded(n *inode.Node) bool {
	return n.IsRegular() && l.Undated[n.Root()] && !n.Detached() && l.Tree.DeadAttr(n) != nil &&
		!n.Files.Writing() && !n.Files.Passthrough()
}

// changeable reports whether the overlayfs has a copy of the file already, or can make one.
func changeable(fd int) bool {
	w, err := unix.Open(backing.ProcPath(fd), unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err == nil {
		backing.Close(w)
	}
	return err != unix.EEXIST && err != unix.ENOENT
}

// copiesOf is the directory in whose file system a nameless copy of n is made.
func (l *Layers) copiesOf(n *inode.Node) int {
	if n.Root() == l.lower {
		return l.Main()
	}
	return l.roots[n.Root()]
}

// settleNameless puts the copy in the place of an object without a name. The name lock is held for writing.
func (l *Layers) settleNameless(n *inode.Node, s *staged) syscall.Errno {
	must := n.CopyUp()
	switch {
	case !must && (s == nil || !l.stranded(n)): // nothing to do, or another request was faster
		return 0
	case s == nil || s.fd < 0: // it has lost its name since, or is a symbolic link
		return syscall.EROFS
	}
	st, e := backing.StatAt(s.fd, "")
	if e != 0 {
		return e
	}
	l.Passthrough.Unregister(&n.Files)
	e = n.Files.Reopen(func(flags int) (int, syscall.Errno) {
		fd, err := unix.Open(backing.ProcPath(s.fd), flags|unix.O_CLOEXEC, 0)
		return fd, backing.Errno(err)
	}, &st)
	if e == 0 {
		n.Detach()
	}
	return e
}

// opensAt returns a function that opens a name of a directory.
func opensAt(dir int, name string) func(flags int) (int, syscall.Errno) {
	return func(flags int) (int, syscall.Errno) { return backing.OpenAt(dir, name, flags, 0) }
}
