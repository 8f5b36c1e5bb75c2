package lockd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"syscall"
	"time"

	"polis/lockd/table"
)

// Listen makes the socket of a Server (mode 0600). A socket file without a listener is residue of a crash and replaced;
// anything else at the path is not touched.
func Listen(path string) (*net.UnixListener, error) {
	fi, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return nil, fmt.Errorf("lock socket: %w", err)
	case fi.Mode().Type() != fs.ModeSocket:
		return nil, fmt.Errorf("lock socket: %s exists and is no socket", path)
	default:
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			_ = c.Close() // the connection only tested for a listener
			return nil, fmt.Errorf("lock socket: another server listens on %s", path)
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return nil, fmt.Errorf("lock socket: %w", err)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("lock socket: %w", err)
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("lock socket: %w", err)
	}
	// Until here the mode depends on the umask; the peer's user id is checked at every accept, so
	// no other user can connect meanwhile.
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("lock socket: %w", err), l.Close())
	}
	return l, nil
}

// accept takes connections until the listener is closed.
func (s *Server) accept(ctx context.Context, l net.Listener) error {
	for {
		nc, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = nc.Close() // accepted after the close
			}
			return nil
		}
		if err != nil {
			// Most likely out of file descriptors: connected clients must still be served, so
			// wait and try again.
			s.Log.Error("lock connection not accepted", "op", "accept", "err", err)
			select {
			case <-time.After(100 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		if err := s.admit(nc); err != nil {
			s.Log.Warn("refused lock connection", "op", "accept", "err", err)
			_ = nc.Close() // it was refused; nothing is lost
		}
	}
}

// admit checks the peer's user id and starts serving.
func (s *Server) admit(nc net.Conn) error {
	if err := checkPeer(nc, s.PeerUID); err != nil {
		return err
	}
	c := &conn{server: s, link: newLink(nc, "shim"), pending: map[uint64]table.WaitID{}}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return ErrClosed
	}
	if len(s.conns) >= s.MaxConns {
		return fmt.Errorf("%d connections: %w", len(s.conns), ErrLimit)
	}
	s.conns[c] = struct{}{}
	s.group.Go(func() error { c.serve(); return nil })
	return nil
}

func checkPeer(nc net.Conn, uid uint32) error {
	uc, ok := nc.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("peer of a %T has no credentials", nc)
	}
	raw, err := uc.SyscallConn()
	if err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	var cred *syscall.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("peer credentials: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("peer credentials: %w", credErr)
	}
	if cred.Uid != uid {
		return fmt.Errorf("peer has uid %d (pid %d), only %d may connect", cred.Uid, cred.Pid, uid)
	}
	return nil
}
