//go:build race

package rawconn

import (
	"errors"
	"syscall"
)

// The race detector learns from package syscall that what was written happened before it was read.

func read(fd uintptr, p []byte) (int, syscall.Errno) { return errnoOf(syscall.Read(int(fd), p)) }

func write(fd uintptr, p []byte) (int, syscall.Errno) { return errnoOf(syscall.Write(int(fd), p)) }

func errnoOf(n int, err error) (int, syscall.Errno) {
	if err == nil {
		return n, 0
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return 0, errno
	}
	return 0, syscall.EIO
}
