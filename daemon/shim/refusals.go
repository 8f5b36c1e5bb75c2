package shim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/fusefs/view"
	"polis/netbridge"
	"polis/netbridge/egress"
)

const (
	// findTime bounds the search for the refused process. The process waits during the search.
	findTime = 300 * time.Millisecond
	// hostAddrsFor is how long the host's addresses are cached.
	hostAddrsFor = 10 * time.Second
)

// openRefusals subscribes to the agent's connections that the rules refuse.
func (s *Shim) openRefusals(g netbridge.Gate) error {
	r := &netbridge.Refusals{Addr: g.Addr, Log: s.Log}
	u := &unlogged{s: s, gate: g}
	asks := &egressAsks{s: s, queue: r, held: map[flow]bool{}, denied: map[string]time.Time{}}
	r.Hold = asks.hold
	if err := r.Open(); err != nil {
		return err
	}
	s.network.onClose("refusals of the network", func(context.Context) error {
		u.count()
		return errors.Join(g.LogTo(0), r.Close())
	})
	s.egress.queue = r.Queue
	if err := g.LogTo(r.Queue); errors.Is(err, netbridge.ErrNoQueue) {
		s.Log.Warn("refused connections are not logged", "op", "net.refuse", "err", err)
		return nil
	} else if err != nil {
		return err
	}
	s.group.Go(func() error {
		report := func(r netbridge.Refusal) {
			s.refusedConnection(r)
			u.later()
		}
		if err := r.Run(s.ctx, report); err != nil {
			s.Log.Error("refused connections are no longer logged, and fail late", "op", "net.refuse", "err", err)
		}
		return nil
	})
	return nil
}

// refusedName records a refused query, or a refused address of its answer.
func (s *Shim) refusedName(a netbridge.Asked, addr netip.Addr, why string) {
	if s.opens != nil && s.recording.Load() && !addr.IsValid() {
		s.opens.Note(0, api.Open{Op: wire.OpResolveDenied, Path: a.Name})
	}
	_, domain, _ := strings.Cut(a.Name, ".")
	d := view.Denial{Time: time.Now(), Op: "name lookup", Path: a.Name, Within: cmp.Or(domain, a.Name), Code: string(api.CodeEgressDenied), Errno: "NXDOMAIN", Rule: why,
		Hint: s.egressHint(a.Name)}
	if addr.IsValid() {
		d.Path += " (" + addr.String() + ")"
		d.Hint = s.addrHint(addr)
	}
	s.deniedBy(d, func(d *view.Denial) { d.Pid, d.Program = s.whoHas(a.Proto, a.From, netbridge.DNSAddr()) })
}

// refusedConnection records a refused connection. The program still waits for its result.
func (s *Shim) refusedConnection(r netbridge.Refusal) {
	to := r.Remote.String()
	if r.Remote.Port() == 0 {
		to = r.Remote.Addr().String()
	}
	d := view.Denial{Time: time.Now(), Op: r.Proto + " connection", Path: to, Within: r.Remote.Addr().String(), Code: string(api.CodeEgressDenied), Errno: "EHOSTUNREACH",
		Rule: "the agent's egress is " + describe(s.egress.egress())}
	if r.Proto == "tcp" {
		d.Errno = "ECONNREFUSED"
	}
	name := s.egress.name(r.Remote.Addr())
	if name != "" {
		d.Path += " (" + name + ")"
	}
	if r.OverLimit {
		s.overLimit(r, d)
		return
	}
	if e := s.egress.egress(); name != "" && e.Policy.Name(name) && egress.Answerable(r.Remote.Addr(), e.Private, nil) {
		d.Rule += "; the address was resolved for that name too long ago"
		d.Hint = "look the name up again, or restart the program that keeps its address"
	} else if name == "" && egress.Answerable(r.Remote.Addr(), e.Private, nil) && !e.Policy.Open() {
		d.Rule += ", and no allowed name was resolved to that address"
		d.Hint = s.egressHint(r.Remote.Addr().String())
	} else {
		d.Hint = s.addrHint(r.Remote.Addr())
	}
	s.deniedBy(d, s.sender(r))
}

// sender finds the process that a refused packet is of.
func (s *Shim) sender(r netbridge.Refusal) func(*view.Denial) {
	return func(d *view.Denial) { d.Pid, d.Program = s.whoHas(r.Proto, r.Local, r.Remote) }
}

// egressHint returns how to allow a name or an address.
func (s *Shim) egressHint(what string) string {
	return fmt.Sprintf("do without it, or ask the administrator to allow it on the host: polisctl agents set %s --egress '+%s'", s.Spec.Agent, api.Shorten(what, 300))
}

// addrHint returns the hint for an address that a list of names does not open.
func (s *Shim) addrHint(a netip.Addr) string {
	e := s.egress.egress()
	for _, p := range egress.Private() {
		// An address that allow_private already opens is only missing in the list.
		if p.Contains(a) && !slices.ContainsFunc(e.Private, func(open netip.Prefix) bool { return open.Contains(a) }) {
			return fmt.Sprintf("private networks are closed: ask the administrator to add %s to network.allow_private in polisd.toml", a)
		}
	}
	if !egress.Answerable(a, e.Private, nil) || e.Policy.Open() {
		return "no setting allows it: agents reach neither the host, nor each other, nor link-local and metadata addresses. A server of your own is at 127.0.0.1; " + hostPortHint(s.Spec.Agent)
	}
	return s.egressHint(a.String())
}

// whoHas returns the process that owns a socket, or zero if it has exited or the search takes too
// long.
func (s *Shim) whoHas(proto string, local, remote netip.AddrPort) (pid uint32, program string) {
	ctx, cancel := context.WithTimeout(s.ctx, findTime)
	defer cancel()
	inode, ok, err := s.ns.Owner(ctx, proto, local, remote)
	if err != nil {
		s.Log.Debug("refused socket not found", "err", err)
	}
	if !ok {
		return 0, ""
	}
	s.egress.mu.Lock()
	list := s.egress.pids
	s.egress.mu.Unlock()
	if list == nil {
		return 0, ""
	}
	pids, err := list()
	if err != nil {
		s.Log.Debug("agent's processes not listed", "err", err)
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	for _, p := range pids {
		if ctx.Err() != nil {
			return 0, ""
		}
		if holds(p, want) {
			return uint32(p), comm(p)
		}
	}
	return 0, ""
}

// holds reports whether a process has an open file of that name.
func holds(pid int, want string) bool {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	d, err := os.Open(dir)
	if err != nil {
		return false // it has exited
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(256)
		for _, n := range names {
			if l, err := os.Readlink(dir + "/" + n); err == nil && l == want {
				return true
			}
		}
		if err != nil {
			return false
		}
	}
}

func comm(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// host returns the host's addresses. g.mu is held.
func (g *egressGuard) host(now time.Time) ([]netip.Prefix, error) {
	if g.own != nil && now.Sub(g.read) < hostAddrsFor {
		return g.own, nil
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("the host's addresses: %w", err)
	}
	own := []netip.Prefix{}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap().Is4() {
				own = append(own, netip.PrefixFrom(ip.Unmap(), 32))
			}
		}
	}
	g.own, g.read = own, now
	return own, nil
}
