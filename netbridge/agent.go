package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ensure makes the agent's namespace, veth pair, address and routes, or repairs
// what is missing of them. It is idempotent; an address once given stays. When
// it fails it takes away what this call made.
func (b *Bridge) Ensure(ctx context.Context, agent string) (Endpoint, error) {
	if err := checkAgent(agent); err != nil {
		return Endpoint{}, err
	}
	var ep Endpoint
	err := b.locked(ctx, func(c *change) (_ bool, err error) {
		ep, err = c.ensureAgent(ctx, agent)
		return false, err
	})
	if err != nil {
		return Endpoint{}, fmt.Errorf("network of agent %s: %w", agent, err)
	}
	return ep, nil
}

func (c *change) ensureAgent(ctx context.Context, agent string) (_ Endpoint, err error) {
	s, err := c.scan()
	if err != nil {
		return Endpoint{}, err
	}
	if s.bridge == nil {
		return Endpoint{}, ErrNotReady
	}
	subnet, ok, err := c.subnet(s.bridge)
	if err != nil {
		return Endpoint{}, err
	}
	if !ok {
		return Endpoint{}, fmt.Errorf("%w: %s has no address", ErrNotReady, c.names.bridge)
	}
	if err := os.MkdirAll(c.cfg.NetnsDir, 0o700); err != nil {
		return Endpoint{}, fmt.Errorf("directory for network namespaces: %w", err)
	}
	path := filepath.Join(c.cfg.NetnsDir, agent)
	ns, created, err := ensureNetNS(path)
	if err != nil {
		return Endpoint{}, err
	}
	defer func() {
		err = errors.Join(err, ns.Close())
		if err != nil && created {
			err = errors.Join(err, removeNetNS(path))
		}
	}()
	if err := ctx.Err(); err != nil {
		return Endpoint{}, context.Cause(ctx)
	}
	p := pair{agent: agent, subnet: subnet, bridge: s.bridge, bridgeMAC: c.names.bridgeMAC(), ns: ns}
	made, err := c.ensurePair(ctx, &p, s)
	if err == nil {
		err = c.connect(ctx, &p, s)
	}
	if err != nil {
		if made {
			err = errors.Join(err, c.deleteLink(p.host))
		}
		return Endpoint{}, err
	}
	return Endpoint{
		NetNS: path, Addr: p.addr, Gateway: gatewayOf(subnet), Link: p.host.Attrs().Name,
	}, nil
}

// pair is an agent's veth pair in the making.
type pair struct {
	agent     string
	addr      netip.Addr
	subnet    netip.Prefix
	bridge    netlink.Link
	bridgeMAC net.HardwareAddr
	host      netlink.Link
	ns        *NS
}

// ensurePair finds the pair or makes it, both ends down and the host end
// marked. A pair whose inner end is elsewhere is the residue of an earlier
// namespace and makes way.
func (c *change) ensurePair(ctx context.Context, p *pair, s scan) (made bool, err error) {
	name := c.names.veth(p.agent)
	taken := map[netip.Addr]bool{}
	for _, v := range s.veths {
		if v.alias.agent != p.agent {
			taken[v.alias.addr] = true
		}
	}
	host, err := c.nl.LinkByName(name)
	switch {
	case isNotFound(err):
	case err != nil:
		return false, fmt.Errorf("find link %s: %w", name, err)
	default:
		alias, ok := parseVethAlias(host.Attrs().Alias)
		if host.Type() != "veth" || (host.Attrs().Alias != "" && (!ok || alias.agent != p.agent || alias.bridge != c.names.bridge)) {
			return false, fmt.Errorf("link %s: %w", name, ErrForeignLink)
		}
		inner, err := p.innerLink(ctx)
		if err != nil {
			return false, err
		}
		if ok && p.subnet.Contains(alias.addr) && !taken[alias.addr] &&
			inner != nil && inner.Attrs().ParentIndex == host.Attrs().Index {
			p.host, p.addr = host, alias.addr
			return false, nil
		}
		c.log.Warn("replacing a broken link", "agent", p.agent, "op", "net.ensure", "link", name)
		if err := c.deleteLink(host); err != nil {
			return false, err
		}
	}
	if p.addr, err = freeAddr(p.subnet, p.agent, taken); err != nil {
		return false, err
	}
	if err := c.addPair(ctx, p, name); err != nil {
		return false, err
	}
	return true, nil
}

func (c *change) addPair(ctx context.Context, p *pair, name string) (err error) {
	fd, err := unix.Open(p.ns.Path(), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: p.ns.Path(), Err: err}
	}
	defer unix.Close(fd) //nolint:errcheck // read-only descriptor
	// A namespace that outlived its pair may still hold an eth0 that is not ours.
	if inner, err := p.innerLink(ctx); err != nil {
		return err
	} else if inner != nil {
		if err := p.inside(ctx, func(h *netlink.Handle) error { return h.LinkDel(inner) }); err != nil {
			return fmt.Errorf("delete stale %s: %w", innerName, err)
		}
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.MTU = p.bridge.Attrs().MTU
	veth := &netlink.Veth{
		LinkAttrs: attrs, PeerName: innerName, PeerNamespace: netlink.NsFd(fd),
		PeerHardwareAddr: macFor(p.addr), PeerMTU: uint32(attrs.MTU),
	}
	if err := c.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("add veth pair %s: %w", name, err)
	}
	host, err := c.nl.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find link %s: %w", name, err)
	}
	alias := vethAlias{bridge: c.names.bridge, agent: p.agent, addr: p.addr}
	if err := c.nl.LinkSetAlias(host, alias.String()); err != nil {
		return errors.Join(fmt.Errorf("alias of %s: %w", name, err), c.deleteLink(host))
	}
	p.host = host
	return nil
}

// connect makes the pair what it should be, in an order that never opens a hole:
// isolated and filtered before up.
func (c *change) connect(ctx context.Context, p *pair, s scan) error {
	name := p.host.Attrs().Name
	if err := hardenLink(name); err != nil {
		return err
	}
	mac := macFor(p.addr)
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"attach to bridge", func() error { return c.nl.LinkSetMaster(p.host, p.bridge) }},
		{"isolate port", func() error { return c.nl.LinkSetIsolated(p.host, true) }},
		{"stop learning", func() error { return c.nl.LinkSetLearning(p.host, false) }},
		{"no unicast flood", func() error { return c.nl.LinkSetFlood(p.host, false) }},
		{"forwarding entry", func() error {
			return c.nl.NeighSet(&netlink.Neigh{LinkIndex: p.host.Attrs().Index, Family: unix.AF_BRIDGE,
				State: netlink.NUD_NOARP, Flags: netlink.NTF_MASTER, HardwareAddr: mac})
		}},
		{"neighbour entry", func() error {
			return c.nl.NeighSet(&netlink.Neigh{LinkIndex: p.bridge.Attrs().Index, Family: unix.AF_INET,
				State: netlink.NUD_PERMANENT, IP: p.addr.AsSlice(), HardwareAddr: mac})
		}},
		{"rules", func() error { return c.applyRules(p.subnet, withVeth(s.veths, p)) }},
		{"bring up", func() error { return c.nl.LinkSetUp(p.host) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("link %s: %s: %w", name, step.what, err)
		}
	}
	if err := p.configureInside(ctx); err != nil {
		return err
	}
	for _, l := range []netlink.Link{p.host, p.bridge} {
		if err := awaitUp(ctx, c.nl, l.Attrs().Index); err != nil {
			return err
		}
	}
	return nil
}

func withVeth(veths []ownVeth, p *pair) []ownVeth {
	others := slices.DeleteFunc(slices.Clone(veths), func(v ownVeth) bool { return v.alias.agent == p.agent })
	return append(others, ownVeth{p.host, vethAlias{agent: p.agent, addr: p.addr}})
}

// inside runs fn with a netlink handle that lives in the agent's namespace.
func (p *pair) inside(ctx context.Context, fn func(h *netlink.Handle) error) error {
	var h *netlink.Handle
	if err := p.ns.Do(ctx, func() (err error) {
		h, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}); err != nil {
		return fmt.Errorf("open rtnetlink in %s: %w", p.ns.Path(), err)
	}
	defer h.Close()
	return fn(h)
}

// innerLink is the namespace's eth0, or nil.
func (p *pair) innerLink(ctx context.Context) (link netlink.Link, err error) {
	err = p.inside(ctx, func(h *netlink.Handle) error {
		link, err = h.LinkByName(innerName)
		if isNotFound(err) {
			link, err = nil, nil
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find %s in %s: %w", innerName, p.ns.Path(), err)
	}
	return link, nil
}

// configureInside is the agent's side: loopback, address, default route, and
// the few settings a program of an ordinary user needs to feel at home.
func (p *pair) configureInside(ctx context.Context) error {
	if err := p.ns.Do(ctx, func() error {
		return setSysctls([][2]string{
			// No IPv6 beyond loopback: connections to AAAA records then fail at
			// once instead of after a time-out.
			{"/proc/sys/net/ipv6/conf/" + innerName + "/disable_ipv6", "1"},
			// The gateway is the only way, whatever a redirect says.
			{"/proc/sys/net/ipv4/conf/all/accept_redirects", "0"},
			{"/proc/sys/net/ipv4/conf/" + innerName + "/accept_redirects", "0"},
			// Its localhost is its own: port 80 and ping need no privilege there.
			{"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
			{"/proc/sys/net/ipv4/ping_group_range", "0\t2147483647"},
		})
	}); err != nil {
		return err
	}
	err := p.inside(ctx, func(h *netlink.Handle) error {
		lo, err := h.LinkByName("lo")
		if err != nil {
			return fmt.Errorf("find lo: %w", err)
		}
		if err := h.LinkSetUp(lo); err != nil {
			return fmt.Errorf("bring up lo: %w", err)
		}
		eth, err := h.LinkByName(innerName)
		if err != nil {
			return fmt.Errorf("find %s: %w", innerName, err)
		}
		// A /32: the other agents are not on the link, so trying one is refused
		// by the gateway at once instead of waiting for an answer to ARP.
		if err := h.AddrReplace(eth, &netlink.Addr{IPNet: ipNet(p.addr, 32)}); err != nil {
			return fmt.Errorf("address %v: %w", p.addr, err)
		}
		if err := h.LinkSetUp(eth); err != nil {
			return fmt.Errorf("bring up %s: %w", innerName, err)
		}
		gw := gatewayOf(p.subnet)
		if err := h.NeighSet(&netlink.Neigh{LinkIndex: eth.Attrs().Index, Family: unix.AF_INET,
			State: netlink.NUD_PERMANENT, IP: gw.AsSlice(), HardwareAddr: p.bridgeMAC}); err != nil {
			return fmt.Errorf("neighbour %v: %w", gw, err)
		}
		if err := h.RouteReplace(&netlink.Route{LinkIndex: eth.Attrs().Index, Gw: gw.AsSlice(), Flags: int(netlink.FLAG_ONLINK),
			Dst: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}}); err != nil {
			return fmt.Errorf("default route by %v: %w", gw, err)
		}
		return awaitUp(ctx, h, eth.Attrs().Index)
	})
	if err != nil {
		return fmt.Errorf("inside %s: %w", p.ns.Path(), err)
	}
	return nil
}

// Remove takes the agent's network away; nothing there is success. Processes
// that still live in the namespace keep their loopback and lose the rest.
func (b *Bridge) Remove(ctx context.Context, agent string) error {
	if err := checkAgent(agent); err != nil {
		return err
	}
	err := b.locked(ctx, func(c *change) (bool, error) { return false, c.removeAgent(agent) })
	if err != nil {
		return fmt.Errorf("remove network of agent %s: %w", agent, err)
	}
	return nil
}

func (c *change) removeAgent(agent string) error {
	s, err := c.scan()
	if err != nil {
		return err
	}
	name := c.names.veth(agent)
	for _, l := range s.halfMade {
		if l.Attrs().Name == name {
			if err := c.deleteLink(l); err != nil {
				return err
			}
		}
	}
	var left []ownVeth
	for _, v := range s.veths {
		if v.alias.agent != agent {
			left = append(left, v)
			continue
		}
		if s.bridge != nil {
			if err := c.forgetNeighbour(s.bridge, v.alias.addr); err != nil {
				return err
			}
		}
		if err := c.deleteLink(v.link); err != nil {
			return err
		}
	}
	if s.bridge != nil && len(left) != len(s.veths) {
		subnet, ok, err := c.subnet(s.bridge)
		if err != nil {
			return err
		}
		if ok {
			if err := c.applyRules(subnet, left); err != nil {
				return err
			}
		}
	}
	return removeNetNS(filepath.Join(c.cfg.NetnsDir, agent))
}

func (c *change) forgetNeighbour(br netlink.Link, addr netip.Addr) error {
	err := c.nl.NeighDel(&netlink.Neigh{LinkIndex: br.Attrs().Index, Family: unix.AF_INET, IP: addr.AsSlice()})
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("forget neighbour %v: %w", addr, err)
	}
	return nil
}
