package netbridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"

	"golang.org/x/sys/unix"
)

// HostPort lets an agent reach one TCP port of the host's own 127.0.0.1, at the
// same port of the agent's 127.0.0.1. It is a [Forwarder] in the other direction:
// it listens in the namespace and connects from outside, so no rule of the
// agent's gate applies to it, and no other address or port of the host is behind it.
//
// Set the fields, then Open; Close ends it and waits.
type HostPort struct {
	// NS is the agent's namespace. HostPort does not close it.
	NS *NS
	// Port is the port on both sides, 1 to 65535.
	Port uint16
	// MaxConns bounds the connections at a time; DefaultMaxConns if 0.
	MaxConns int
	// Budget is shared with the agent's other host ports; may be nil.
	Budget Budget
	// Connected is called for every connection with the agent's end of it and
	// the error of the connection to the host, before anything is relayed. It must
	// not block for long. May be nil.
	Connected func(from netip.AddrPort, err error)
	// Log receives failures that are not the peers' own; slog.Default if nil.
	Log *slog.Logger

	fwd *Forwarder
}

// Open binds the port in the namespace. ErrPortInUse means that a program of the
// agent listens on it. ctx bounds Open only.
func (h *HostPort) Open(ctx context.Context) error {
	if h.Port == 0 {
		return fmt.Errorf("%w: host port 0", ErrPortRange)
	}
	at := netip.AddrPortFrom(loopback(), h.Port)
	ln, err := h.NS.Listen(ctx, "tcp4", at.String())
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("%w: %v of the agent", ErrPortInUse, at)
	}
	if err != nil {
		return fmt.Errorf("listen on %v of the agent: %w", at, err)
	}
	h.fwd = &Forwarder{NS: h.NS, Internal: h.Port, MaxConns: h.MaxConns, Budget: h.Budget, Log: h.Log, accepted: h.Connected}
	h.fwd.start(ctx, ln, func(ctx context.Context) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, dialTimeout)
		defer cancel()
		var d net.Dialer
		d.SetMultipathTCP(false)
		return d.DialContext(ctx, "tcp4", at.String())
	})
	return nil
}

// Close stops to listen, cuts every connection and waits for all goroutines.
func (h *HostPort) Close() error {
	if h.fwd == nil {
		return nil
	}
	return h.fwd.Close()
}
