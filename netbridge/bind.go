package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// loopback is the default address of a port map.
func loopback() netip.Addr { return netip.AddrFrom4([4]byte{127, 0, 0, 1}) }

// hostNetwork is the network to listen on: an IPv4 address is IPv4 only, also
// 0.0.0.0; "::" is both.
func hostNetwork(proto string, a netip.Addr) string {
	switch {
	case a.Is4():
		return proto + "4"
	case a == netip.IPv6Unspecified():
		return proto
	}
	return proto + "6"
}

// listenHost opens the host's side of a TCP map.
func listenHost(ctx context.Context, at netip.AddrPort) (*net.TCPListener, error) {
	lc := plainListenConfig()
	l, err := lc.Listen(ctx, hostNetwork("tcp", at.Addr()), at.String())
	if err != nil {
		return nil, bindError(at, "tcp", err)
	}
	return l.(*net.TCPListener), nil
}

// listenHostUDP opens the host's side of a UDP map.
func listenHostUDP(ctx context.Context, at netip.AddrPort) (*net.UDPConn, error) {
	lc := plainListenConfig()
	c, err := lc.ListenPacket(ctx, hostNetwork("udp", at.Addr()), at.String())
	if err != nil {
		return nil, bindError(at, "udp", err)
	}
	return c.(*net.UDPConn), nil
}

func bindError(at netip.AddrPort, proto string, err error) error {
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		return fmt.Errorf("%w: %v/%s", ErrPortInUse, at, proto)
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return fmt.Errorf("%w: %v", ErrNoSuchAddress, at.Addr())
	}
	return fmt.Errorf("map port: %w", err)
}

// TryBind binds a port of the host and releases it: nil, ErrPortInUse, ErrNoSuchAddress or the
// kernel's error. Port 0 tests the address alone.
func TryBind(ctx context.Context, proto string, at netip.AddrPort) error {
	if proto == "udp" {
		c, err := listenHostUDP(ctx, at)
		if err != nil {
			return err
		}
		return c.Close()
	}
	l, err := listenHost(ctx, at)
	if err != nil {
		return err
	}
	return l.Close()
}
