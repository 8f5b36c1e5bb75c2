package relisten

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Private makes a socket that only its owner can use from its first moment: bind(2) gives the name the mode of the
// socket. A changed umask would also apply to every other file that the process makes at that time. Its name stays
// when it is closed.
func Private(path string) (*net.UnixListener, error) {
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
	u.SetUnlinkOnClose(false)
	return u, nil
}
