package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// Temporary is the Ticket of an operation on temporary files (package tempfile): the guard has decided about objects,
// not only about names. Its methods are called under the name lock, and must not wait.
type Temporary interface {
	Ticket
	// Still is called right before the operation: false means that the objects are others, and the guard is called
	// again.
	Still() bool
	// Free reports whether the new name may be of nothing now.
	Free() bool
	// Mark is called with a descriptor (O_PATH or better) of the object that gets a name, before it gets it; with -1 if
	// the object would not be a regular file. An error ends the operation.
	Mark(fd int) syscall.Errno
	// Settled is called when the operation has succeeded.
	Settled()
}

// tempTicket passes a Temporary to the I/O of an operation that gives an object a name. A nil tempTicket is of an
// operation that does not.
type tempTicket struct{ ticket Temporary }

// take keeps the ticket of an operation, and reports whether its decision holds.
func (t *tempTicket) take(op Op, tk Ticket) (still bool, errno syscall.Errno) {
	temp, ok := tk.(Temporary)
	if !ok {
		if t != nil {
			t.ticket = nil
		}
		return true, 0
	}
	if t != nil {
		t.ticket = temp
	} else {
		switch op {
		case OpCreate, OpTmpfile, OpMknod, OpMkdir, OpSymlink, OpLink, OpRename, OpExchange:
			return false, syscall.EACCES // what gets a name here cannot be marked
		}
	}
	return temp.Still(), 0
}

// marks reports whether the object must be marked.
func (t *tempTicket) marks() bool { return t != nil && t.ticket != nil }

// markAt marks the object of a name, which must be the one with these attributes.
func (t *tempTicket) markAt(dir int, name string, st *unix.Statx_t) syscall.Errno {
	if !t.marks() {
		return 0
	}
	fd, e := backing.OpenAt(dir, name, unix.O_PATH, 0)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	now, e := backing.StatAt(fd, "")
	if e == 0 && (now.Ino != st.Ino || now.Dev_major != st.Dev_major || now.Dev_minor != st.Dev_minor) {
		e = syscall.ESTALE
	}
	if e != 0 {
		return e
	}
	return t.ticket.Mark(fd)
}

// free checks that a name which must be free is.
func (t *tempTicket) free(fs *FS, parent *inode.Node, name string) syscall.Errno {
	if !t.marks() || !t.ticket.Free() {
		return 0
	}
	at, e := fs.targetAt(parent, name)
	switch {
	case e == syscall.ENOENT, e == 0 && at.Whiteout:
		return 0
	case e == 0:
		return syscall.EEXIST
	}
	return e
}

// make makes a regular file that has its mark before it has a name, and returns a descriptor of it.
func (t *tempTicket) make(fs *FS, h *fuse.InHeader, dir int, name string, flags int, mode uint32) (fd int, e syscall.Errno) {
	if flags&unix.O_ACCMODE == unix.O_RDONLY {
		flags |= unix.O_RDWR // O_TMPFILE: open(2)
	}
	e = fs.identity.MakeAs(h, func() (e syscall.Errno) {
		fd, e = backing.OpenAt(dir, ".", flags|unix.O_TMPFILE, mode)
		return e
	})
	switch e {
	case 0:
	case syscall.EOPNOTSUPP, syscall.EISDIR:
		return t.makeNamed(fs, h, dir, name, flags, mode)
	default:
		return -1, e
	}
	if e = t.ticket.Mark(fd); e == 0 {
		e = backing.Errno(unix.Linkat(fd, "", dir, name, unix.AT_EMPTY_PATH))
	}
	if e != 0 {
		backing.Close(fd)
		return -1, e
	}
	return fd, 0
}

// makeNamed is make for a file system that has no nameless files.
func (t *tempTicket) makeNamed(fs *FS, h *fuse.InHeader, dir int, name string, flags int, mode uint32) (fd int, e syscall.Errno) {
	e = fs.identity.MakeAs(h, func() (e syscall.Errno) {
		fd, e = backing.OpenAt(dir, name, flags|unix.O_CREAT|unix.O_EXCL, mode)
		return e
	})
	if e != 0 {
		return -1, e
	}
	if e = t.ticket.Mark(fd); e != 0 {
		backing.Close(fd)
		_ = unix.Unlinkat(dir, name, 0) // the error to report is the first one
		return -1, e
	}
	return fd, 0
}
