package netbridge

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// sockpoolSize is how many sockets of a family are kept ready, for connections that arrive while
// the namespace's thread wakes up.
const sockpoolSize = 16

// sockpool holds TCP sockets created in a namespace ahead of need, so that a connection
// does not wait for two changes of thread. Nothing is made before the first
// connection of a family.
type sockpool struct {
	v4, v6 chan int // descriptors
	low    chan int // family to make some of
}

func newSockpool() sockpool {
	return sockpool{v4: make(chan int, sockpoolSize), v6: make(chan int, sockpoolSize), low: make(chan int, 2)}
}

func (s *sockpool) of(family int) chan int {
	if family == unix.AF_INET6 {
		return s.v6
	}
	return s.v4
}

// fill runs on the namespace's thread.
func (s *sockpool) fill(family int) {
	for {
		fd, err := tcpSocket(family)
		if err != nil {
			return // the next caller creates its own, and gets the error
		}
		select {
		case s.of(family) <- fd:
		default:
			_ = unix.Close(fd) // never connected
			return
		}
	}
}

// empty closes what is left; the thread has ended.
func (s *sockpool) empty() {
	for _, c := range []chan int{s.v4, s.v6} {
		for {
			select {
			case fd := <-c:
				_ = unix.Close(fd) // never connected
				continue
			default:
			}
			break
		}
	}
}

// socket is a TCP socket of the namespace: one of the pool, or a new one.
func (n *NS) socket(ctx context.Context, family int) (fd int, err error) {
	if ctx.Err() != nil {
		return -1, context.Cause(ctx)
	}
	select {
	case <-n.quit: // what Close left in the pool must not be used
		return -1, fmt.Errorf("network namespace %s: %w", n.path, ErrClosed)
	default:
	}
	c := n.sockpool.of(family)
	if len(c) < sockpoolSize/2 {
		select {
		case n.sockpool.low <- family:
		default: // it is notified already
		}
	}
	select {
	case fd = <-c:
		return fd, nil
	default:
	}
	err = n.Do(ctx, func() (err error) {
		fd, err = tcpSocket(family)
		return err
	})
	return fd, err
}

func tcpSocket(family int) (int, error) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	return fd, os.NewSyscallError("socket", err)
}
