package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects from within the namespace. network is tcp, tcp4, tcp6, udp,
// udp4 or udp6; addr is a literal address and port ("[::1]:3000"), because a
// name would be resolved on the host's side.
func (n *NS) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ap, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s in namespace: %w", addr, err)
	}
	switch {
	case strings.HasPrefix(network, "tcp"):
		return n.dialTCP(ctx, network, ap)
	case strings.HasPrefix(network, "udp"):
		var c net.Conn
		err := n.Do(ctx, func() (err error) {
			c, err = (&net.Dialer{}).DialContext(ctx, network, addr) // literal UDP: no waiting
			return err
		})
		return c, err
	}
	return nil, fmt.Errorf("dial %s in namespace: %w", addr, net.UnknownNetworkError(network))
}

// dialTCP makes the socket on the namespace's thread and waits for the connection on the caller's
// goroutine, so that a slow peer does not block other callers.
func (n *NS) dialTCP(ctx context.Context, network string, ap netip.AddrPort) (net.Conn, error) {
	fail := func(err error) error {
		return &net.OpError{Op: "dial", Net: network, Addr: net.TCPAddrFromAddrPort(ap), Err: err}
	}
	family, sa := sockaddr(ap)
	if (network == "tcp4") == (family == unix.AF_INET6) && network != "tcp" {
		return nil, fail(&net.AddrError{Err: "address of the other family", Addr: ap.String()})
	}
	fd, err := n.socket(ctx, family)
	if err != nil {
		return nil, fail(err)
	}
	err = unix.Connect(fd, sa)
	f := os.NewFile(uintptr(fd), "tcp:"+ap.String()) // registers with the poller: fd is non-blocking
	defer f.Close()                                  //nolint:errcheck // FileConn below has its own duplicate
	switch {
	case err == nil:
	case errors.Is(err, unix.EINPROGRESS), errors.Is(err, unix.EINTR):
		if err := awaitConnect(ctx, f); err != nil {
			return nil, fail(err)
		}
	default:
		return nil, fail(os.NewSyscallError("connect", err))
	}
	c, err := net.FileConn(f)
	if err != nil {
		return nil, fail(err)
	}
	return c, nil
}

func sockaddr(ap netip.AddrPort) (int, unix.Sockaddr) {
	if a := ap.Addr().Unmap(); a.Is4() {
		return unix.AF_INET, &unix.SockaddrInet4{Port: int(ap.Port()), Addr: a.As4()}
	}
	return unix.AF_INET6, &unix.SockaddrInet6{Port: int(ap.Port()), Addr: ap.Addr().As16()}
}

// awaitConnect waits until a non-blocking connect has succeeded or failed.
func awaitConnect(ctx context.Context, f *os.File) error {
	rc, err := f.SyscallConn()
	if err != nil {
		return err
	}
	// A deadline in the past wakes the poller below.
	stop := context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })
	defer stop()
	var result error
	err = rc.Write(func(fd uintptr) bool {
		soErr, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			result = os.NewSyscallError("getsockopt", err)
			return true
		}
		switch e := syscall.Errno(soErr); e {
		case 0:
			// Still connecting, or connected: only the peer's name distinguishes them.
			_, err := unix.Getpeername(int(fd))
			return err == nil
		case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
			return false
		case syscall.EISCONN:
			return true
		default:
			result = os.NewSyscallError("connect", e)
			return true
		}
	})
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return result
}

// Listen opens a listening socket in the namespace. network is tcp, tcp4 or
// tcp6 and addr a literal address and port.
func (n *NS) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("listen on %s in namespace: %w", addr, err)
	}
	var l net.Listener
	err := n.Do(ctx, func() (err error) {
		lc := plainListenConfig()
		l, err = lc.Listen(ctx, network, addr)
		return err
	})
	return l, err
}

// ListenPacket opens a UDP socket in the namespace.
func (n *NS) ListenPacket(ctx context.Context, network, addr string) (net.PacketConn, error) {
	if _, err := netip.ParseAddrPort(addr); err != nil {
		return nil, fmt.Errorf("listen on %s in namespace: %w", addr, err)
	}
	var c net.PacketConn
	err := n.Do(ctx, func() (err error) {
		lc := plainListenConfig()
		c, err = lc.ListenPacket(ctx, network, addr)
		return err
	})
	return c, err
}

// plainListenConfig asks for plain TCP: Go listens with MPTCP by default, which
// buys nothing between two namespaces and costs more.
func plainListenConfig() net.ListenConfig {
	var lc net.ListenConfig
	lc.SetMultipathTCP(false)
	return lc
}
