package adminsocket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Listen makes the admin socket for root and a group; with a gid of -1 for root only.
func Listen(path string, gid int) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	l, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	l.SetUnlinkOnClose(false)
	if gid > 0 {
		if err = os.Chown(path, 0, gid); err == nil {
			err = os.Chmod(path, 0o660)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("admin socket: %w", err), l.Close())
		}
	}
	return l, nil
}

// listenPrivate makes a socket that only its owner can use from its first moment: bind(2) gives
// the name the mode of the socket. A changed umask would also apply to every other file that the
// process makes at that time.
func listenPrivate(path string) (*net.UnixListener, error) {
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		var err error
		cerr := c.Control(func(fd uintptr) { err = unix.Fchmod(int(fd), 0o600) })
		return errors.Join(cerr, err)
	}}
	l, err := lc.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	u, ok := l.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listener of %s is a %T", path, l), l.Close())
	}
	return u, nil
}

// GroupOf returns the group of a socket. Its creator, such as systemd, decided which group may use it.
// If the group cannot be read it returns gid.
func GroupOf(l net.Listener, gid int) int {
	if fi, err := os.Stat(l.Addr().String()); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			return int(st.Gid)
		}
	}
	return gid
}
