package adminsocket

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"polis/daemon/relisten"
)

// Listen makes the admin socket for root and a group; with a gid of -1 for root only.
func Listen(path string, gid int) (*net.UnixListener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
	l, err := relisten.Private(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket: %w", err)
	}
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
