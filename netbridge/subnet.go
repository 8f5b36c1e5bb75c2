package netbridge

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// subnet is the network of the bridge's address: the one that it had before, or the one of its agents. Another
// program may have added an address, or replaced ours.
func (c *change) subnet(s scan) (netip.Prefix, bool, error) {
	var addrs []netlink.Addr
	err := retryInterrupted(func() (err error) {
		addrs, err = c.nl.AddrList(s.bridge, netlink.FAMILY_V4)
		return err
	})
	if err != nil {
		return netip.Prefix{}, false, fmt.Errorf("addresses of %s: %w", c.names.bridge, err)
	}
	for _, a := range addrs {
		p, ok := prefixOf(a.IPNet)
		if !ok || p.Bits() > 30 || p.Addr() != gatewayOf(p) {
			continue
		}
		if p = p.Masked(); p == c.last || !c.last.IsValid() && (len(s.veths) == 0 || holdsAgent(p, s)) {
			c.last = p
			return p, true, nil
		}
	}
	return netip.Prefix{}, false, nil
}

// holdsAgent reports whether the address of one of the instance's agents lies in a network.
func holdsAgent(p netip.Prefix, s scan) bool {
	return slices.ContainsFunc(s.veths, func(v ownVeth) bool { return p.Contains(v.alias.addr) })
}

// formerSubnet is the subnet of a bridge that has lost its address: the last one, or that of its agents.
func (c *change) formerSubnet(s scan) (netip.Prefix, bool) {
	if c.last.IsValid() {
		return c.last, true
	}
	if len(s.veths) == 0 {
		return netip.Prefix{}, false
	}
	return netip.PrefixFrom(s.veths[0].alias.addr, max(c.cfg.Pool.Bits(), subnetBits)).Masked(), true
}

// chooseSubnet takes a share of the pool.
func (c *change) chooseSubnet(br netlink.Link) (netip.Prefix, error) {
	routes, addrs, err := c.taken(br.Attrs().Index)
	if err != nil {
		return netip.Prefix{}, err
	}
	subnet, hides, err := shareOf(c.cfg.Pool, routes, addrs)
	if err != nil {
		return netip.Prefix{}, err
	}
	if hides {
		c.log.Warn("agents' subnet is part of a wider route of this host: hosts there with such addresses cannot be reached; network.pool sets another pool",
			"op", "net.shared", "subnet", subnet.String(), "routes", overlapping(subnet, routes))
	}
	c.last = subnet
	c.log.Info("subnet chosen", "op", "net.shared", "link", c.names.bridge, "subnet", subnet.String())
	return subnet, nil
}

// shareOf is the first share of the pool that no route of any table and no address of any link overlaps. If
// there is none, routes that are wider than the pool do not count: such a route (10.0.0.0/8 of a VPN, for example)
// says little about where networks are. hides is set then.
func shareOf(pool netip.Prefix, routes, addrs []netip.Prefix) (subnet netip.Prefix, hides bool, err error) {
	subnet, err = freeSubnet(pool, slices.Concat(addrs, routes))
	if err == nil {
		return subnet, false, nil
	}
	wide := func(p netip.Prefix) bool { return p.Bits() < pool.Bits() && !slices.Contains(addrs, p) }
	narrow := slices.DeleteFunc(slices.Clone(routes), wide)
	if s, werr := freeSubnet(pool, slices.Concat(addrs, narrow)); werr == nil {
		return s, true, nil
	}
	return subnet, false, err
}

// taken are the destinations of the host's routes, of every table, and the networks of its addresses, but for those
// of the bridge, whose index is given.
func (c *change) taken(bridge int) (routes, addrs []netip.Prefix, err error) {
	err = retryInterrupted(func() error {
		routes, addrs = nil, nil
		// Table 0 (RT_TABLE_UNSPEC) in the filter means every table.
		list, err := c.nl.RouteListFiltered(netlink.FAMILY_V4,
			&netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range list {
			if p, ok := prefixOf(r.Dst); ok && (bridge == 0 || r.LinkIndex != bridge) {
				routes = append(routes, p.Masked())
			}
		}
		have, err := c.nl.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return fmt.Errorf("list addresses: %w", err)
		}
		for _, a := range have {
			if p, ok := prefixOf(a.IPNet); ok && a.LinkIndex != bridge {
				addrs = append(addrs, p.Masked())
			}
		}
		return nil
	})
	return routes, addrs, err
}
