package netbridge

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync/atomic"
	"time"
)

// dialTimeout bounds each attempt to reach the server inside. Both ends are in one kernel: an
// answer that takes longer does not come.
const dialTimeout = 3 * time.Second

// Server is a TCP port of an agent, whichever of the agent's addresses the listening program is
// bound to: 127.0.0.1, ::1, 0.0.0.0, :: or its own. No value of its fields can direct a
// connection out of the namespace.
type Server struct {
	NS *NS
	// Port is the agent's port.
	Port uint16
	// AgentAddr is the agent's own address, tried last; may be invalid.
	AgentAddr netip.Addr

	last atomic.Int32 // index of the address that answered last
}

// Dial tries the loopback addresses and then the agent's own, starting with the one that answered
// last.
func (s *Server) Dial(ctx context.Context) (net.Conn, error) {
	targets := [3]netip.Addr{loopback(), netip.IPv6Loopback(), s.AgentAddr}
	n := len(targets)
	if !s.AgentAddr.IsValid() {
		n--
	}
	start := int(s.last.Load())
	var errs []error
	for i := range n {
		at := (start + i) % n
		tctx, cancel := context.WithTimeout(ctx, dialTimeout)
		c, err := s.NS.dialTCP(tctx, "tcp", netip.AddrPortFrom(targets[at], s.Port))
		cancel()
		if err == nil {
			s.last.Store(int32(at))
			return c, nil
		}
		errs = append(errs, err)
		if ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(errs...)
}
