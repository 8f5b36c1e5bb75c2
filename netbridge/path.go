package netbridge

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Ethernet's MTU in bytes, and the smallest MTU of an agent's link.
const (
	defaultMTU = 1500
	leastMTU   = 1280
)

// outside returns addresses of the internet, to which the kernel's choice of a route is read; nothing is sent there.
// There is one of each half of the address space: VPNs divide the default route into halves.
func outside() []net.IP { return []net.IP{{1, 1, 1, 1}, {203, 0, 113, 1}} }

// uplinkMTU is the smallest MTU on the host's ways to the internet: of its default routes, and of the routes that the
// kernel chooses with all tables and rules, which VPNs add. Clouds and VPNs often have less than
// Ethernet's 1500; an agent that announced more would wait forever for large answers where
// routers drop ICMP.
func (c *change) uplinkMTU() (int, error) {
	var routes []netlink.Route
	err := retryInterrupted(func() (err error) {
		routes, err = c.nl.RouteList(nil, netlink.FAMILY_V4)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("list routes: %w", err)
	}
	var ways []netlink.Route
	for _, r := range routes {
		if p, ok := prefixOf(r.Dst); r.Dst == nil || ok && p.Bits() == 0 {
			ways = append(ways, r)
		}
	}
	for _, to := range outside() {
		chosen, err := c.nl.RouteGet(to)
		if err == nil {
			ways = append(ways, chosen...)
		} else if !noRoute(err) {
			return 0, fmt.Errorf("find the route to %v: %w", to, err)
		}
	}
	mtu := defaultMTU
	for _, r := range ways {
		if r.MTU > 0 {
			mtu = min(mtu, r.MTU)
		}
		for _, index := range append([]int{r.LinkIndex}, nexthops(r)...) {
			if index == 0 {
				continue // no link of its own: nexthops have
			}
			l, err := c.nl.LinkByIndex(index)
			if isNotFound(err) {
				continue // gone since
			}
			if err != nil {
				return 0, fmt.Errorf("find uplink %d: %w", index, err)
			}
			mtu = min(mtu, l.Attrs().MTU)
		}
	}
	return max(mtu, leastMTU), nil
}

// noRoute reports whether the kernel has no route to an address, or one that refuses packets.
func noRoute(err error) bool {
	return errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EINVAL)
}

func nexthops(r netlink.Route) []int {
	var out []int
	for _, n := range r.MultiPath {
		out = append(out, n.LinkIndex)
	}
	return out
}

// followPath gives the bridge and the agents' links the MTU of the way to the internet, after a change of routes.
func (c *change) followPath(ctx context.Context, s scan) error {
	if s.bridge == nil {
		return nil
	}
	mtu, err := c.uplinkMTU()
	if err != nil {
		return err
	}
	if old := s.bridge.Attrs().MTU; old != mtu {
		c.log.Info("MTU of the agents' links follows the routes", "op", "net.path", "link", c.names.bridge, "from", old, "to", mtu)
	}
	errs := []error{setMTU(c.nl, s.bridge, mtu)}
	for _, v := range s.veths {
		if v.link.Attrs().MTU != mtu {
			errs = append(errs, c.setInnerMTU(ctx, v.alias.agent, mtu), setMTU(c.nl, v.link, mtu))
		}
	}
	return errors.Join(errs...)
}

// setInnerMTU changes the MTU of an agent's own end. A namespace that is gone is success.
func (c *change) setInnerMTU(ctx context.Context, agent string, mtu int) error {
	ns, err := OpenNS(c.netnsFile(agent))
	if err != nil {
		return nil //nolint:nilerr // the comparison of links finds it
	}
	p := &pair{ns: ns}
	inner, err := p.innerLink(ctx)
	if err == nil && inner != nil {
		err = p.inside(ctx, func(h *netlink.Handle) error { return setMTU(h, inner, mtu) })
	}
	return errors.Join(err, ns.Close())
}
