package server

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"polis/daemon/host/relisten"
)

// ListenSocket makes the admin socket for root and a group; with a gid of -1 for root only.
func ListenSocket(path string, gid int) (*net.UnixListener, error) {
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

// OpenSocket makes the admin socket at path, or takes the one that systemd made, and follows its path. The caller checks it
// before use: systemd's can have lost its name.
func OpenSocket(given net.Listener, path string, gid int) (*relisten.Listener, error) {
	o := relisten.Options{GID: max(gid, 0), Mode: 0o600}
	if gid > 0 {
		o.Mode = 0o660
	}
	switch l := given.(type) {
	case nil:
		made, err := ListenSocket(path, gid)
		if err != nil {
			return nil, err
		}
		f, err := relisten.Follow(made, path, o)
		if err != nil {
			return nil, errors.Join(err, made.Close())
		}
		return f, nil
	case *net.UnixListener:
		return relisten.Inherit(l, l.Addr().String(), o)
	}
	return nil, fmt.Errorf("a %T was passed, a unix socket is expected", given)
}

// SocketGroup returns the group of a socket. Its creator, such as systemd, decided which group may use it.
// If the group cannot be read it returns gid.
func SocketGroup(l net.Listener, gid int) int {
	if fi, err := os.Stat(l.Addr().String()); err == nil {
		if st, ok := fi.Sys().(*syscall.Stat_t); ok {
			return int(st.Gid)
		}
	}
	return gid
}
