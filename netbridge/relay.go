package netbridge

import (
	"errors"
	"net"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// bigBuffer is the buffer of a busy connection. Copying in pieces of this size takes less
	// processor time than splice(2) between two TCP sockets, which moves a few pages at a time:
	// BenchmarkPortMap.
	bigBuffer = 256 << 10
	// smallBuffer is for connections that find no big one free.
	smallBuffer = 16 << 10
	// maxBig bounds the big ones of a map.
	maxBig = 16
)

// buffers lends buffers from the time a connection is readable until the data is written: an idle
// connection has none.
type buffers struct {
	big   chan struct{} // a slot per big buffer
	bigs  sync.Pool
	small sync.Pool
}

func newBuffers() *buffers {
	return &buffers{
		big:   make(chan struct{}, maxBig),
		bigs:  sync.Pool{New: func() any { return new([bigBuffer]byte) }},
		small: sync.Pool{New: func() any { return new([smallBuffer]byte) }},
	}
}

// get lends a buffer, which giveBack takes.
func (b *buffers) get() (buf []byte, giveBack func()) {
	select {
	case b.big <- struct{}{}:
		a := b.bigs.Get().(*[bigBuffer]byte)
		return a[:], func() { b.bigs.Put(a); <-b.big }
	default:
		a := b.small.Get().(*[smallBuffer]byte)
		return a[:], func() { b.small.Put(a) }
	}
}

// relay copies both ways. EOF of one direction is passed on as a half-close, so that the other
// can continue; a failure ends both with a reset.
func relay(a, b *net.TCPConn, bufs *buffers) {
	var wg sync.WaitGroup
	pump := func(dst, src *net.TCPConn) {
		err := carry(dst, src, bufs)
		if err == nil {
			err = dst.CloseWrite()
		}
		if err != nil && !errors.Is(err, unix.ENOTCONN) {
			abort(a)
			abort(b)
		}
	}
	wg.Go(func() { pump(a, b) })
	pump(b, a)
	wg.Wait()
}

// carry copies from src to dst until src ends.
func carry(dst, src *net.TCPConn, bufs *buffers) error {
	rc, err := src.SyscallConn()
	if err != nil {
		return err
	}
	for {
		var n int
		var buf []byte
		var giveBack func()
		var failed error
		err := rc.Read(func(fd uintptr) bool {
			buf, giveBack = bufs.get()
			for {
				n, failed = unix.Read(int(fd), buf)
				if !errors.Is(failed, unix.EINTR) {
					break
				}
			}
			if errors.Is(failed, unix.EAGAIN) {
				giveBack()
				giveBack = nil
				return false
			}
			return true
		})
		if err == nil && failed == nil && n > 0 {
			_, err = dst.Write(buf[:n])
		}
		if giveBack != nil {
			giveBack()
		}
		switch {
		case err != nil:
			return err
		case failed != nil:
			return &net.OpError{Op: "read", Net: "tcp", Err: failed}
		case n == 0:
			return nil
		}
	}
}
