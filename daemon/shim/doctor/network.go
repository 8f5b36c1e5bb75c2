package doctor

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/store/layout"
	"polis/netbridge"
)

// agentsNetwork compares the network that agents have now with what polisd made: other programs and
// administrators can have changed it.
func (d *Doctor) agentsNetwork(ctx context.Context) []api.Check {
	const name, filter = "network of agents", "bridge filter"
	_, lacks := isolation.Ask(ctx, self, "barrier", "-", unix.CLONE_NEWNET)
	out := []api.Check{ok(filter, "clsact and cls_bpf")}
	if lacks != nil {
		out[0] = bad(filter, api.CheckWarn, lacks.Error(), "when another program flushes the nftables rules, agents are open until polisd has restored its table, and for as long as no polisd runs",
			"load sch_ingress and cls_bpf, and restart polisd").by(restarted("sudo modprobe -a sch_ingress cls_bpf"))
	}
	faults, exists, err := d.networkFaults(ctx)
	if err != nil {
		return append(out, bad(name, api.CheckWarn, err.Error(), "unknown whether the rules of the agents' network are in force", "run doctor as root").asRoot())
	}
	if lacks != nil {
		faults = slices.DeleteFunc(faults, func(f netbridge.Fault) bool { return f.Barrier })
	}
	switch {
	case !exists:
		return append(out, ok(name, "none: no agent's network is up"))
	case len(faults) > 0:
		return append(out, bad(name, api.CheckFail, "it is not as polisd made it: "+netbridge.Faults(faults), "agents reach nothing, or what their rules do not allow, until it is restored",
			"polisd restores it within two seconds while it runs: systemctl status polisd, journalctl -u polisd; polisctl events shows what changed it").by(restoreNetwork()))
	}
	return append(out, ok(name, "its rules, bridge and links are as polisd made them"))
}

// routes checks what the host's routes mean for agents.
func (d *Doctor) routes(ctx context.Context) api.Check {
	const name = "routes"
	b, err := d.bridge()
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "set network.pool to an IPv4 network").by(configured("network.pool", config.Default().Network.Pool))
	}
	r, err := b.Routes(ctx)
	if errors.Is(err, netbridge.ErrNoSubnet) {
		f := bad(name, api.CheckFail, err.Error(), "polisd does not start", "set network.pool to a private network that this host has no route to, and restart polisd")
		return d.otherPool(ctx, f)
	}
	if err != nil {
		return bad(name, api.CheckWarn, err.Error(), "unknown whether agents reach the network outside", "run doctor as root").asRoot()
	}
	if len(r.Links) == 0 {
		return bad(name, api.CheckWarn, "this host has no route to the internet", "agents reach nothing there", "give this host a default route, if agents are to reach the internet").
			without("which gateway it has is a matter of its network")
	}
	found := fmt.Sprintf("to the internet by %s, MTU %d; agents are in %v", strings.Join(r.Links, ", "), r.MTU, r.Subnet)
	if len(r.Overlaps) > 0 {
		f := bad(name, api.CheckWarn, fmt.Sprintf("%s, which overlaps %v of this host", found, r.Overlaps), "this host does not reach hosts there that have an address of the agents' subnet, or its agents not the internet",
			"set network.pool to another private network; it is used once no agent is up and polisd was stopped and started")
		return d.otherPool(ctx, f)
	}
	return ok(name, found)
}

// pools are private networks that are tried in place of the configured one.
var pools = []string{"10.213.0.0/16", "172.29.0.0/16", "192.168.192.0/18", "10.77.0.0/16", "172.25.0.0/16", "192.168.64.0/18"}

// otherPool adds the command that configures a network which this host has no route to.
func (d *Doctor) otherPool(ctx context.Context, f fault) api.Check {
	other := *d
	for _, pool := range pools {
		other.config.Network.Pool = pool
		b, err := other.bridge()
		if err != nil {
			continue
		}
		if free, err := b.FreePool(ctx); err == nil && free {
			return f.by(configured("network.pool", pool))
		}
	}
	return f.without("this host has routes to all private networks that polis tries")
}

// restoreNetwork has polisd make its network again.
func restoreNetwork() string {
	if booted() {
		return "sudo systemctl restart polisd"
	}
	return "polisctl doctor"
}

// networkFaults compares the network of the polisd of this configuration.
func (d *Doctor) networkFaults(ctx context.Context) ([]netbridge.Fault, bool, error) {
	b, err := d.bridge()
	if err != nil {
		return nil, false, err
	}
	return b.Check(ctx)
}

// bridge is the network of the polisd of this configuration.
func (d *Doctor) bridge() (*netbridge.Bridge, error) {
	pool, err := netip.ParsePrefix(d.config.Network.Pool)
	if err != nil {
		return nil, fmt.Errorf("network.pool: %w", err)
	}
	return netbridge.New(netbridge.Config{Instance: d.config.Instance(), Pool: pool, NetnsDir: layout.Run(d.config.RunDir).NetNS()})
}

func probeBarrier(context.Context, string) (string, error) { return "", netbridge.ProbeBarrier() }
