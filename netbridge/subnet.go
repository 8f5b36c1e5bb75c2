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

// chooseSubnet takes the first share of the pool that no route of any table
// and no address of any link overlaps.
func (c *change) chooseSubnet(br netlink.Link) (netip.Prefix, error) {
	var taken []netip.Prefix
	err := retryInterrupted(func() error {
		taken = taken[:0]
		// Table 0 (RT_TABLE_UNSPEC) in the filter means every table.
		routes, err := c.nl.RouteListFiltered(netlink.FAMILY_V4,
			&netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return fmt.Errorf("list routes: %w", err)
		}
		for _, r := range routes {
			if p, ok := prefixOf(r.Dst); ok {
				taken = append(taken, p.Masked())
			}
		}
		addrs, err := c.nl.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return fmt.Errorf("list addresses: %w", err)
		}
		for _, a := range addrs {
			if p, ok := prefixOf(a.IPNet); ok && a.LinkIndex != br.Attrs().Index {
				taken = append(taken, p.Masked())
			}
		}
		return nil
	})
	if err != nil {
		return netip.Prefix{}, err
	}
	subnet, err := freeSubnet(c.cfg.Pool, taken)
	if err == nil {
		c.last = subnet
		c.log.Info("subnet chosen", "op", "net.shared", "link", c.names.bridge, "subnet", subnet.String())
	}
	return subnet, err
}
