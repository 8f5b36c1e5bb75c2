package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"os"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/netbridge"
)

// fewPorts are too few for the port maps of a handful of agents.
const fewPorts = 64

// ports checks what port maps and the proxy are bound to.
func (d *Doctor) ports(ctx context.Context) api.Check {
	const name = "ports"
	lo, hi := d.config.PortRange()
	bind, err := netip.ParseAddr(d.config.Network.Bind)
	if err == nil {
		err = netbridge.TryBind(ctx, api.ProtoTCP, netip.AddrPortFrom(bind, 0))
	}
	if err != nil {
		return bad(name, api.CheckFail, fmt.Sprintf("network.bind = %s: %v", d.config.Network.Bind, err), "no port of an agent can be mapped", "set network.bind to an address of this host").by(configured("network.bind", config.Default().Network.Bind))
	}
	total, free := hi-lo+1, 0
	for port := lo; port <= hi; port++ {
		if ctx.Err() != nil {
			return bad(name, api.CheckWarn, "there was no time to try them all", "unknown how many ports are free", "check again when this machine is less busy").by("polisctl doctor")
		}
		if netbridge.TryBind(ctx, api.ProtoTCP, netip.AddrPortFrom(bind, uint16(port))) == nil {
			free++
		}
	}
	found := fmt.Sprintf("%d of %d ports from %d to %d on %v are free", free, total, lo, hi, bind)
	first, last, err := ephemeral()
	switch {
	case free < fewPorts:
		return bad(name, api.CheckWarn, found, "soon no more ports of agents can be mapped (NO_PORTS)", "widen network.ports; polisctl ports list shows which are polis' own, ss -ltn the others").by(configured("network.ports", otherPorts(lo, hi, first)))
	case err == nil && lo <= last && hi >= first:
		return bad(name, api.CheckWarn, fmt.Sprintf("%s; %d-%d is where the kernel takes ports for connections", found, first, last),
			"an external port may be in use when its agent starts again, and another takes its place", "set network.ports to ports below "+fmt.Sprint(first)).by(configured("network.ports", otherPorts(lo, hi, first)))
	}
	return ok(name, found)
}

// otherPorts is a range of ports in place of lo to hi, below those that the kernel takes for connections: the default, or else a wide one.
func otherPorts(lo, hi, first int) string {
	usual := config.Default()
	if l, h := usual.PortRange(); (l != lo || h != hi) && (first == 0 || h < first) {
		return usual.Network.Ports
	}
	if first <= 2048 {
		first = 32768
	}
	return fmt.Sprintf("%d-%d", max(1024, first-20000), first-1)
}

// ephemeral is where the kernel takes the ports of connections from.
func ephemeral() (first, last int, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(b), &first, &last)
	}
	return first, last, err
}
