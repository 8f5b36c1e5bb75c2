package rawconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
)

// Conn is a TCP connection. Its methods are those of net.Conn.
type Conn struct {
	net.Conn
	raw         syscall.RawConn
	read, write transfer
	idle        idle
}

// transfer is one direction of a connection. step is made once: a closure for each call would be allocated.
type transfer struct {
	mu   sync.Mutex
	step func(fd uintptr) bool
	buf  []byte
	n    int
	err  error
}

// New returns c with cheaper reads and writes, or c itself if it is no TCP connection.
func New(c net.Conn) net.Conn {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return c
	}
	raw, err := t.SyscallConn()
	if err != nil {
		return c
	}
	out := &Conn{Conn: c, raw: raw}
	out.read.step = func(fd uintptr) bool {
		ready := out.read.call(read, fd)
		if !ready {
			out.idle.set(true)
		}
		return ready
	}
	out.write.step = func(fd uintptr) bool {
		for len(out.write.buf) > 0 {
			if !out.write.call(write, fd) {
				return false
			}
			if out.write.err != nil {
				return true
			}
		}
		return true
	}
	return out
}

// call makes one system call with what is left of the buffer. It returns false if the socket is not ready.
func (t *transfer) call(sys func(fd uintptr, p []byte) (int, syscall.Errno), fd uintptr) bool {
	for {
		n, errno := sys(fd, t.buf)
		switch errno {
		case 0:
			t.n += n
			t.buf = t.buf[n:]
			return true
		case syscall.EINTR:
		case syscall.EAGAIN:
			return false
		default:
			t.err = errno
			return true
		}
	}
}

// do transfers p. name is that of the operation in errors.
func (c *Conn) do(t *transfer, wait func(func(uintptr) bool) error, name string, p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf, t.n, t.err = p, 0, nil
	err := wait(t.step)
	t.buf = nil
	if err == nil && t.err != nil {
		err = os.NewSyscallError(name, t.err)
	}
	if err != nil {
		err = c.named(name, err)
	}
	return t.n, err
}

// named returns err as package net does: with the operation and the addresses.
func (c *Conn) named(name string, err error) error {
	var inner *net.OpError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return &net.OpError{Op: name, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// Read is part of net.Conn.
func (c *Conn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	defer c.idle.set(false)
	n, err := c.do(&c.read, c.raw.Read, "read", p)
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

// Write is part of net.Conn.
func (c *Conn) Write(p []byte) (int, error) { return c.do(&c.write, c.raw.Write, "write", p) }

// Listener returns l with connections of this package.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept is part of net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return New(c), nil
}
