package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// pair is an agent's veth pair while it is set up.
type pair struct {
	agent     string
	addr      netip.Addr
	subnet    netip.Prefix
	bridge    netlink.Link
	bridgeMAC net.HardwareAddr
	host      netlink.Link
	ns        *NS
}

// ensurePair finds the pair or creates it, both ends down and the host end marked. A pair whose
// inner end is in another namespace is residue and is replaced.
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
	// A namespace that outlived its pair may still hold an eth0 of another pair.
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

// connect configures the pair in an order that never opens a hole: isolated and filtered before
// it is up.
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
		{"set MTU", func() error { return setMTU(c.nl, p.host, p.bridge.Attrs().MTU) }},
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
		{"rules", func() error { return c.applyRules(p.subnet, withVeth(s.veths, p), name) }},
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
