package fusectl

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Connection is one connection. It holds the directory of the connection, so that neither fusectl has
// to be mounted at each look, which costs the more the more connections there are, nor the number can
// become another connection's.
type Connection struct {
	id uint32
	fd int
}

// Open opens the connection that has the number now. The caller must know that this is the one that it
// means: its mount exists before and afterwards (see OpenMounted). A connection that is not there has no
// requests, and ends without an error.
func Open(id uint32) (*Connection, error) {
	c := &Connection{id: id, fd: -1}
	root, err := open()
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	c.fd, err = unix.Openat(root, strconv.FormatUint(uint64(id), 10), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, fmt.Errorf("open FUSE connection %d: %w", id, err)
	}
	return c, nil
}

// OpenMounted opens the connection of a mount of this mount namespace (proc_pid_mountinfo(5)). If the mount has
// gone meanwhile the connection is not there.
func OpenMounted(m *mountinfo.Info) (*Connection, error) {
	c, err := Open(uint32(m.Minor))
	if err != nil {
		return nil, err
	}
	again, err := mountinfo.GetMounts(func(now *mountinfo.Info) (skip, stop bool) {
		return now.ID != m.ID || now.Minor != m.Minor || now.FSType != m.FSType || now.Source != m.Source || now.Mountpoint != m.Mountpoint, false
	})
	if err == nil && len(again) > 0 {
		return c, nil
	}
	cerr := c.Close()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read mounts: %w", err), cerr)
	}
	return c, cerr
}

// ID is the number of the connection.
func (c *Connection) ID() uint32 { return c.id }

// Waiting returns the number of requests that have no answer yet; 0 when the connection has ended.
func (c *Connection) Waiting() (int, error) {
	// The file has no offset to go back to.
	fd, err := c.open("waiting", unix.O_RDONLY)
	if err != nil || fd < 0 {
		return 0, err
	}
	defer unix.Close(fd)
	var buf [32]byte
	n, err := unix.Read(fd, buf[:])
	if err != nil || n == 0 {
		return 0, os.NewSyscallError("read", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(buf[:n])))
}

// Abort ends the connection: every caller that waits gets ENOTCONN, or ECONNABORTED, and the server
// ENODEV.
func (c *Connection) Abort() error {
	fd, err := c.open("abort", unix.O_WRONLY)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	if _, err = unix.Write(fd, []byte("1")); err != nil {
		return fmt.Errorf("abort FUSE connection %d: %w", c.id, err)
	}
	return nil
}

// open opens a file of the connection; -1 if the connection has ended.
func (c *Connection) open(name string, flags int) (int, error) {
	if c.fd < 0 {
		return -1, nil
	}
	fd, err := unix.Openat(c.fd, name, flags|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return -1, nil
	}
	if err != nil {
		return -1, fmt.Errorf("open %s of FUSE connection %d: %w", name, c.id, err)
	}
	return fd, nil
}

// Close closes the descriptor. The connection remains.
func (c *Connection) Close() error {
	if c.fd < 0 {
		return nil
	}
	fd := c.fd
	c.fd = -1
	return os.NewSyscallError("close", unix.Close(fd))
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
