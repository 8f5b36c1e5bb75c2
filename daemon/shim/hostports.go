package shim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/view"
	"polis/netbridge"
)

// hostPortQuiet is how long connections to a host port are only counted after one was reported.
const hostPortQuiet = time.Minute

// hostPorts are the ports of the host's 127.0.0.1 that the agent reaches at the same port of its
// own loopback.
type hostPorts struct {
	ns  *netbridge.NS
	log *slog.Logger
	// connected is called for every connection with the agent's end.
	connected func(port uint16, from netip.AddrPort, err error)
	budget    netbridge.Budget

	mu   sync.Mutex
	open map[uint16]*openPort
}

// openPort is one open port; its counters are guarded by hostPorts.mu.
type openPort struct {
	fwd      netbridge.HostPort
	reported time.Time
	count    int // connections since then
}

// has reports whether a port is open.
func (h *hostPorts) has(port int) bool {
	if h == nil {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return port > 0 && port < 1<<16 && h.open[uint16(port)] != nil
}

// any reports whether at least one port is open.
func (h *hostPorts) any() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open) > 0
}

// set opens and closes ports until exactly those in want are open. On an error it restores the
// previous ones.
func (h *hostPorts) set(ctx context.Context, want []uint16) error {
	fresh := map[uint16]*openPort{}
	for _, p := range want {
		if h.has(int(p)) || fresh[p] != nil {
			continue
		}
		f := &openPort{}
		f.fwd = netbridge.HostPort{NS: h.ns, Port: p, Budget: h.budget, Log: h.log,
			Connected: func(from netip.AddrPort, err error) { h.connected(p, from, err) }}
		if err := f.fwd.Open(ctx); err != nil {
			return errors.Join(err, closeAll(fresh))
		}
		fresh[p] = f
	}
	old := map[uint16]*openPort{}
	h.mu.Lock()
	for p, f := range h.open {
		if !slices.Contains(want, p) {
			old[p] = f
			delete(h.open, p)
		}
	}
	for p, f := range fresh {
		h.open[p] = f
	}
	h.mu.Unlock()
	// The agent loses the connections. Nothing else depends on these listeners.
	if err := closeAll(old); err != nil {
		h.log.Warn("host ports not closed", "op", "net.hostport", "err", err)
	}
	return nil
}

func closeAll(ports map[uint16]*openPort) error {
	var errs []error
	for p, f := range ports {
		if err := f.fwd.Close(); err != nil {
			errs = append(errs, fmt.Errorf("host port %d: %w", p, err))
		}
	}
	return errors.Join(errs...)
}

// due counts a connection and returns how many to report now, or 0.
func (h *hostPorts) due(port uint16, now time.Time) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.open[port]
	if f == nil {
		return 0
	}
	f.count++
	if !f.reported.IsZero() && now.Sub(f.reported) < hostPortQuiet {
		return 0
	}
	n := f.count
	f.reported, f.count = now, 0
	return n
}

// openHostPorts opens the host ports of the spec, before any process of the agent runs.
func (s *Shim) openHostPorts() error {
	h := &hostPorts{ns: s.ns, log: s.Log, connected: s.hostPortUsed, budget: netbridge.NewBudget(netbridge.DefaultBudget), open: map[uint16]*openPort{}}
	s.hostPorts = h
	s.network.onClose("host ports", func(ctx context.Context) error { return h.set(ctx, nil) })
	return h.set(s.ctx, s.Spec.HostPorts)
}

// setHostPorts opens and closes host ports of a running agent.
func (s *Shim) setHostPorts(old, now wire.Settings) error {
	if s.hostPorts == nil || slices.Equal(old.HostPorts, now.HostPorts) {
		return nil // in the host's network every port is reachable
	}
	for _, p := range now.HostPorts {
		if s.ports.mapped(api.ProtoTCP, int(p)) {
			return api.Errorf(api.CodePortInUse, "host port %d: port %d of agent %s is mapped to the host", p, p, s.Spec.Agent).
				WithHint("polisctl ports remove %s %d, then set it again", s.Spec.Agent, p)
		}
	}
	err := s.hostPorts.set(s.ctx, now.HostPorts)
	if errors.Is(err, netbridge.ErrPortInUse) {
		return api.Errorf(api.CodePortInUse, "host ports of agent %s: %w", s.Spec.Agent, err).
			WithHint("stop the agent's program that listens there, then set it again")
	}
	if err != nil {
		return api.Errorf(api.CodeNetNSFailed, "host ports of agent %s: %w", s.Spec.Agent, err)
	}
	return nil
}

// hostPortUsed emits an event for a connection to a host port. It finds the program while the
// program waits for the connection. Repeated connections are counted.
func (s *Shim) hostPortUsed(port uint16, from netip.AddrPort, err error) {
	n := s.hostPorts.due(port, time.Now())
	if n == 0 {
		return
	}
	pid, program := s.whoHas("tcp", from, netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), port))
	who := program
	if who == "" {
		who = "a program"
	}
	ev := api.Event{Type: api.EventHostPort, Agent: s.Spec.Agent,
		Message: fmt.Sprintf("agent %s: %s connected to 127.0.0.1:%d of the host", s.Spec.Agent, who, port),
		Data:    map[string]any{"port": int(port), "pid": pid, "program": program, "count": n}}
	if err != nil {
		ev.Message = fmt.Sprintf("agent %s: %s could not connect to 127.0.0.1:%d of the host: %v", s.Spec.Agent, who, port, err)
		ev.Data["error"] = err.Error()
	}
	if n > 1 {
		ev.Message += fmt.Sprintf(", %d connections since the last report", n)
	}
	s.events.Publish(ev)
}

// hostName resolves the names of the host's services. They resolve to the agent's own loopback,
// where only the ports in network.host_ports lead to the host.
func (s *Shim) hostName(a netbridge.Asked) (netip.Addr, bool) {
	switch a.Name {
	case "host.polis", "host.docker.internal", "host.containers.internal":
	default:
		return netip.Addr{}, false
	}
	if s.hostPorts.any() {
		return netip.AddrFrom4([4]byte{127, 0, 0, 1}), true
	}
	s.deniedBy(view.Denial{Time: time.Now(), Op: "name lookup", Path: a.Name, Within: a.Name, Code: string(api.CodeEgressDenied), Errno: "NXDOMAIN",
		Rule: "no port of the host is open to the agent (network.host_ports)", Hint: hostPortHint(s.Spec.Agent)},
		func(d *view.Denial) { d.Pid, d.Program = s.whoHas(a.Proto, a.From, netbridge.DNSAddr()) })
	return netip.Addr{}, true
}

// hostPortHint returns how to open a service of the host.
func hostPortHint(agent string) string {
	return fmt.Sprintf("for a service that listens on 127.0.0.1 of the host, ask the administrator to name its port: polisctl agents set %s --host-port PORT; it is then at 127.0.0.1:PORT of the agent, too", agent)
}
