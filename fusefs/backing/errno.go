package backing

import (
	"errors"
	"syscall"
)

// Errno is the one border between Go errors and what a caller sees.
func Errno(err error) syscall.Errno {
	if err == nil {
		return 0
	}
	var e syscall.Errno
	if !errors.As(err, &e) {
		return syscall.EIO
	}
	return e
}

// Stale maps the refusals of openat2 that mean "this is no longer the object
// the kernel looked up" to ESTALE: the kernel then looks the name up again and
// follows a new symbolic link in the caller's own name space.
func Stale(e syscall.Errno) syscall.Errno {
	switch e {
	case syscall.ELOOP, syscall.EXDEV, syscall.ENOTDIR, syscall.ENXIO:
		return syscall.ESTALE
	case syscall.EMFILE:
		return syscall.ENFILE
	}
	return e
}
