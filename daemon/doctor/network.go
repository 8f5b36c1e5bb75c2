package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/isolation"
	"polis/daemon/layout"
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
			"load sch_ingress and cls_bpf, and restart polisd")
	}
	faults, exists, err := d.networkFaults(ctx)
	if err != nil {
		return append(out, bad(name, api.CheckWarn, err.Error(), "unknown whether the rules of the agents' network are in force", "run doctor as root"))
	}
	if lacks != nil {
		faults = slices.DeleteFunc(faults, func(f netbridge.Fault) bool { return f.Barrier })
	}
	switch {
	case !exists:
		return append(out, ok(name, "none: no agent's network is up"))
	case len(faults) > 0:
		return append(out, bad(name, api.CheckFail, "it is not as polisd made it: "+netbridge.Faults(faults), "agents reach nothing, or what their rules do not allow, until it is restored",
			"polisd restores it within two seconds while it runs: systemctl status polisd, journalctl -u polisd; polisctl events shows what changed it"))
	}
	return append(out, ok(name, "its rules, bridge and links are as polisd made them"))
}

// networkFaults compares the network of the polisd of this configuration.
func (d *Doctor) networkFaults(ctx context.Context) ([]netbridge.Fault, bool, error) {
	pool, err := netip.ParsePrefix(d.config.Network.Pool)
	if err != nil {
		return nil, false, fmt.Errorf("network.pool: %w", err)
	}
	b, err := netbridge.New(netbridge.Config{Instance: d.config.Instance(), Pool: pool, NetnsDir: layout.Run(d.config.RunDir).NetNS()})
	if err != nil {
		return nil, false, err
	}
	return b.Check(ctx)
}

func probeBarrier(context.Context, string) (string, error) { return "", netbridge.ProbeBarrier() }
