package shim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
)

// errEarly ends a connection whose program sends something while its last request waits.
var errEarly = errors.New("more than one request at a time on a connection")

// insideConn is a connection of the sandbox's socket. While a request waits, net/http reads one
// byte ahead to notice the end of the connection (connReader.backgroundRead). A byte that comes
// then would hide the end, and what the request waits for would outlive its program. So such a byte
// ends the request and the connection.
type insideConn struct {
	*net.UnixConn
	end     context.CancelCauseFunc // of the connection's context
	early   atomic.Bool             // a byte was read ahead since the request began
	waiting atomic.Bool
	over    atomic.Bool
}

// Read is part of net.Conn. Only what is read ahead is read into one byte.
func (c *insideConn) Read(p []byte) (int, error) {
	if c.over.Load() {
		return 0, errEarly
	}
	n, err := c.UnixConn.Read(p)
	if n == 1 && len(p) == 1 {
		c.early.Store(true)
		if c.waiting.Load() {
			c.cut()
			return 0, errEarly
		}
	}
	return n, err
}

func (c *insideConn) cut() {
	c.over.Store(true)
	c.end(errEarly)
}

// insideOf is the connection of a request; nil if it is another.
func insideOf(ctx context.Context) *insideConn {
	c, _ := ctx.Value(connKey{}).(*insideConn)
	return c
}

// begin is called before the body of a request is read.
func (c *insideConn) begin() {
	if c != nil {
		c.early.Store(false)
	}
}

// wait is called when the body was read, and the result when the request has its answer.
func (c *insideConn) wait() (end func()) {
	if c == nil {
		return func() {}
	}
	c.waiting.Store(true)
	if c.early.Load() {
		c.cut()
	}
	return func() { c.waiting.Store(false) }
}

// insideListener makes the connections of a listener insideConn.
type insideListener struct{ net.Listener }

// Accept is part of net.Listener.
func (l insideListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a %T is no connection of a unix socket", c), c.Close())
	}
	return &insideConn{UnixConn: u}, nil
}

type connKey struct{}

// insideContext is the context of a connection, with its peer.
func (s *Shim) insideContext(ctx context.Context, c net.Conn) context.Context {
	in, ok := c.(*insideConn)
	if !ok {
		return ctx
	}
	ctx, in.end = context.WithCancelCause(ctx)
	return context.WithValue(s.withPeer(ctx, in.UnixConn), connKey{}, in)
}
