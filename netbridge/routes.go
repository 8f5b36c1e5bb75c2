package netbridge

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Routes are what the host's routes mean for agents.
type Routes struct {
	// Links lead to the internet, and MTU is the smallest on the way, in bytes.
	Links []string
	MTU   int
	// Subnet is that of the agents, or the one that they would get.
	Subnet netip.Prefix
	// Overlaps are routes and addresses of the host in the subnet: one hides the other.
	Overlaps []netip.Prefix
}

// Routes reads the host's routes. ErrNoSubnet: no subnet is left for agents.
func (b *Bridge) Routes(ctx context.Context) (r Routes, err error) {
	err = b.locked(ctx, func(c *change) (bool, error) {
		s, err := c.scan()
		if err != nil {
			return false, err
		}
		last := s.bridge == nil && len(s.others) == 0
		if r.MTU, err = c.uplinkMTU(); err != nil {
			return last, err
		}
		if r.Links, err = c.uplinks(); err != nil {
			return last, err
		}
		return last, c.readSubnet(s, &r)
	})
	return r, err
}

func (c *change) readSubnet(s scan, r *Routes) (err error) {
	index := 0
	if s.bridge != nil {
		index = s.bridge.Attrs().Index
		if r.Subnet, err = c.ownSubnet(s); err != nil {
			return err
		}
	}
	routes, addrs, err := c.taken(index)
	if err != nil {
		return err
	}
	if s.bridge == nil {
		if r.Subnet, _, err = shareOf(c.cfg.Pool, routes, addrs); err != nil {
			return err
		}
	}
	for _, p := range slices.Concat(routes, addrs) {
		if overlapsAny(r.Subnet, []netip.Prefix{p}) && !slices.Contains(r.Overlaps, p) {
			r.Overlaps = append(r.Overlaps, p)
		}
	}
	return nil
}

// linkTo names the link that packets to an address leave by, "" if the host has no route.
func (c *change) linkTo(to net.IP) (string, error) {
	chosen, err := c.nl.RouteGet(to)
	if noRoute(err) || err == nil && len(chosen) == 0 {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find the route to %v: %w", to, err)
	}
	l, err := c.nl.LinkByIndex(chosen[0].LinkIndex)
	if isNotFound(err) || err == nil && l.Attrs().Name == "lo" {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("find uplink %d: %w", chosen[0].LinkIndex, err)
	}
	return l.Attrs().Name, nil
}

// uplinks names the links that lead to the internet, each once.
func (c *change) uplinks() ([]string, error) {
	var names []string
	for _, to := range outside() {
		name, err := c.linkTo(to)
		if err != nil {
			return nil, err
		}
		if name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names, nil
}

// FreePool reports whether the pool has a share that no route and no address of the host overlaps, besides those of the bridge.
func (b *Bridge) FreePool(ctx context.Context) (free bool, err error) {
	err = b.locked(ctx, func(c *change) (bool, error) {
		s, err := c.scan()
		if err != nil {
			return false, err
		}
		index := 0
		if s.bridge != nil {
			index = s.bridge.Attrs().Index
		}
		routes, addrs, err := c.taken(index)
		if err == nil {
			_, hides, none := shareOf(c.cfg.Pool, routes, addrs)
			free = none == nil && !hides
		}
		return s.bridge == nil && len(s.others) == 0, err
	})
	return free, err
}
