package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"polis/daemon/api"
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
		return bad(name, api.CheckFail, fmt.Sprintf("network.bind = %s: %v", d.config.Network.Bind, err), "no port of an agent can be mapped", "set network.bind to an address of this host")
	}
	total, free := hi-lo+1, 0
	for port := lo; port <= hi; port++ {
		if ctx.Err() != nil {
			return bad(name, api.CheckWarn, "there was no time to try them all", "unknown how many ports are free", "")
		}
		if netbridge.TryBind(ctx, api.ProtoTCP, netip.AddrPortFrom(bind, uint16(port))) == nil {
			free++
		}
	}
	found := fmt.Sprintf("%d of %d ports from %d to %d on %v are free", free, total, lo, hi, bind)
	first, last, err := ephemeral()
	switch {
	case free < fewPorts:
		return bad(name, api.CheckWarn, found, "soon no more ports of agents can be mapped (NO_PORTS)", "widen network.ports; polisctl ports list shows which are polis' own, ss -ltn the others")
	case err == nil && lo <= last && hi >= first:
		return bad(name, api.CheckWarn, fmt.Sprintf("%s; %d-%d is where the kernel takes ports for connections", found, first, last),
			"an external port may be in use when its agent starts again, and another takes its place", "set network.ports to ports below "+fmt.Sprint(first))
	}
	return ok(name, found)
}

// ephemeral is where the kernel takes the ports of connections from.
func ephemeral() (first, last int, err error) {
	b, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	if err == nil {
		_, err = fmt.Sscan(string(b), &first, &last)
	}
	return first, last, err
}

const ipForward = "/proc/sys/net/ipv4/ip_forward"

// acceptBridge is what another firewall has to do; an instance's bridge has a name of its own.
func (d *Doctor) acceptBridge() string {
	return "have that firewall accept what comes from and goes to the interface " + netbridge.BridgeName(d.config.Instance())
}

// forwarding looks for what keeps agents from the network outside.
func (d *Doctor) forwarding(context.Context) api.Check {
	const name = "forwarding"
	b, err := os.ReadFile(ipForward)
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "")
	}
	found := "on"
	if strings.TrimSpace(string(b)) == "0" {
		f, err := os.OpenFile(ipForward, os.O_WRONLY, 0)
		if err != nil {
			return bad(name, api.CheckFail, fmt.Sprintf("off, and polisd could not switch it on: %v", err), "agents do not reach the network outside", "sysctl net.ipv4.ip_forward=1, or make /proc/sys writable for polisd")
		}
		if err := f.Close(); err != nil {
			return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "")
		}
		found = "off; polisd switches it on while it has agents"
	}
	drops, err := netbridge.ForwardDrops()
	if err != nil {
		return bad(name, api.CheckWarn, fmt.Sprintf("%s; the rules of others cannot be read: %v", found, err), "unknown whether another firewall stops agents", "run as root")
	}
	if len(drops) > 0 {
		return bad(name, api.CheckWarn, found+"; dropped by default in "+strings.Join(drops, ", "), "agents may not reach the network outside: a drop of another firewall is final",
			d.acceptBridge())
	}
	if b, err := os.ReadFile("/proc/sys/net/bridge/bridge-nf-call-iptables"); err == nil && strings.TrimSpace(string(b)) == "1" {
		found += "; iptables sees bridged packets too (br_netfilter)"
	}
	return ok(name, found)
}
