package dial

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"time"

	"golang.org/x/sys/unix"
)

// New makes a client for the shim at socket.
func New(socket string) *Shim {
	s := &Shim{Socket: socket, Timeout: 10 * time.Second}
	s.hc = &http.Client{Transport: &http.Transport{DialContext: s.connect, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second}}
	return s
}

func (s *Shim) connect(ctx context.Context, _, _ string) (net.Conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	c, err := d.DialContext(ctx, "unix", s.Socket)
	if s.OnMissing != nil && Missing(err) {
		s.OnMissing()
	}
	return c, err
}

// Missing reports whether an error is that nobody listens at the socket, or there is none.
func Missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED)
}
