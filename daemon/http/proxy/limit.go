package proxy

import (
	"net"
	"sync"
)

// limited accepts no more than so many connections at a time; more wait in the
// kernel's backlog.
type limited struct {
	net.Listener
	slots  chan struct{}
	closed chan struct{}
	once   sync.Once

	mu    sync.Mutex
	conns map[*counted]struct{}
}

func limit(l net.Listener, n int) *limited {
	return &limited{Listener: l, slots: make(chan struct{}, n), closed: make(chan struct{}), conns: map[*counted]struct{}{}}
}

func (l *limited) Accept() (net.Conn, error) {
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.slots
		return nil, err
	}
	out := &counted{Conn: c, of: l}
	l.mu.Lock()
	l.conns[out] = struct{}{}
	l.mu.Unlock()
	return out, nil
}

// cut closes every connection, also those that became something else than HTTP.
func (l *limited) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.conns {
		_ = c.Conn.Close() // who reads from it finds out, and closes it as well
	}
}

func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type counted struct {
	net.Conn
	once sync.Once
	of   *limited
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.of.mu.Lock()
		delete(c.of.conns, c)
		c.of.mu.Unlock()
		<-c.of.slots
	})
	return c.Conn.Close()
}
