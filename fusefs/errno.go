package fusefs

import (
	"errors"
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// errnoOf is the one border between Go errors and what a caller sees.
func errnoOf(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return syscall.EIO
	}
	return e
}

// swapped maps the refusals of openat2 that mean "this is no longer the object
// the kernel looked up" to ESTALE: the kernel then looks the name up again and
// follows a new symbolic link in the caller's own name space.
func swapped(e syscall.Errno) syscall.Errno {
	switch e {
	case syscall.ELOOP, syscall.EXDEV, syscall.ENOTDIR, syscall.ENXIO:
		return syscall.ESTALE
	case syscall.EMFILE:
		return syscall.ENFILE
	}
	return e
}

// status turns an errno into an answer. ENOSYS would switch an operation off
// for the whole mount, so it is never passed on from backing or guard.
func status(e syscall.Errno) fuse.Status {
	if e == syscall.ENOSYS {
		return fuse.EIO
	}
	return fuse.Status(e)
}

// validName refuses what can never be one component of a path.
func validName(name string) syscall.Errno {
	switch {
	case len(name) > unix.NAME_MAX:
		return syscall.ENAMETOOLONG
	case name == "", strings.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	case name == ".", name == "..", strings.IndexByte(name, '/') >= 0:
		return syscall.EACCES
	}
	return 0
}
