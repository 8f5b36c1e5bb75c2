package fusectl

import (
	"errors"
	"fmt"
	"os"
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

// Meter counts the requests of one connection that have no answer yet. It holds the directory of
// the connection, so that neither fusectl has to be mounted at each look, which costs the more
// the more connections there are, nor the number can become another connection's.
type Meter struct{ fd int }

// OpenMeter opens the count of a connection. A connection that is not there has no requests.
func OpenMeter(id uint32) (*Meter, error) {
	m := &Meter{fd: -1}
	err := with(id, ".", unix.O_PATH|unix.O_DIRECTORY, func(fd int) (err error) {
		m.fd, err = unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open what waits for FUSE connection %d: %w", id, err)
	}
	return m, nil
}

// Waiting returns the count; 0 when the connection has ended.
func (m *Meter) Waiting() (int, error) {
	if m.fd < 0 {
		return 0, nil
	}
	// The file has no offset to go back to.
	fd, err := unix.Openat(m.fd, "waiting", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open what waits for a FUSE connection: %w", err)
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil || n == 0 {
		return 0, os.NewSyscallError("read", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(buf[:n])))
}

// Close closes the descriptor.
func (m *Meter) Close() error {
	if m.fd < 0 {
		return nil
	}
	fd := m.fd
	m.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
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
