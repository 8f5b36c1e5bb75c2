package fusefs

import (
	"strings"
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

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
