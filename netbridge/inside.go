package netbridge

import (
	"context"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

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

// configureInside configures the agent's side: loopback, address, default route, and the settings
// that programs of an ordinary user expect.
func (p *pair) configureInside(ctx context.Context) error {
	if err := p.ns.Do(ctx, func() error {
		return setSysctls([][2]string{
			// No IPv6 beyond loopback: connections to AAAA records then fail at
			// once instead of after a time-out.
			{"/proc/sys/net/ipv6/conf/" + innerName + "/disable_ipv6", "1"},
			// The gateway is the only route, whatever a redirect announces.
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
		if err := setMTU(h, eth, p.bridge.Attrs().MTU); err != nil {
			return err
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
