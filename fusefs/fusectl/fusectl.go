package fusectl

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Abort ends a connection: every caller that waits gets ENOTCONN, or ECONNABORTED, and the
// server ENODEV. A connection that is not there is no error.
func Abort(id uint32) error {
	err := with(id, "abort", unix.O_WRONLY, func(fd int) error {
		_, err := unix.Write(fd, []byte("1"))
		return err
	})
	if err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", id, err)
	}
	return nil
}

// Waiting returns how many requests of a connection have no answer yet; 0 if it is not there.
func Waiting(id uint32) (n int, err error) {
	err = with(id, "waiting", unix.O_RDONLY, func(fd int) error {
		buf := make([]byte, 32)
		k, err := unix.Read(fd, buf)
		if err == nil {
			n, err = strconv.Atoi(strings.TrimSpace(string(buf[:max(k, 0)])))
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read what waits for FUSE connection %d: %w", id, err)
	}
	return n, nil
}

func with(id uint32, name string, flags int, f func(fd int) error) error {
	root, err := open()
	if err != nil {
		return err
	}
	defer unix.Close(root)
	fd, err := unix.Openat(root, strconv.FormatUint(uint64(id), 10)+"/"+name, flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return f(fd)
}

// open returns a descriptor of a detached mount of fusectl.
func open() (int, error) {
	ctx, err := unix.Fsopen("fusectl", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open fusectl: %w", err)
	}
	defer unix.Close(ctx)
	if err := unix.FsconfigCreate(ctx); err != nil {
		return -1, fmt.Errorf("configure fusectl: %w", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount fusectl: %w", err)
	}
	return fd, nil
}
