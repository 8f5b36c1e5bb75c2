package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/host/isolation"
)

// probeTime is the longest that the probe of the machine's isolation may take.
const probeTime = 20 * time.Second

// probeIsolation records and logs which isolation this machine lacks.
func (d *Daemon) probeIsolation(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	lost, err := isolation.Probe(ctx, d.shims.program)
	if err != nil {
		return api.Errorf(api.CodeNamespaceFailed, "find out what can be isolated: %w", err).WithHint("polis-shim --doctor shows details")
	}
	d.missingIsolation = lost
	for _, l := range lost {
		d.Log.Error("isolation is degraded", "op", "start", "lost", l.Capability, "code", l.Code, "found", l.Found, "cost", l.Cost, "agents", d.live().Sandbox.Degraded)
	}
	return nil
}

// lostNames returns the names of the isolation that this machine lacks.
func (d *Daemon) lostNames() []string { return isolation.Names(d.missingIsolation) }

// network returns the resource that connects agents to a network.
func (d *Daemon) network() agent.Resource {
	if isolation.Lacks(d.missingIsolation, isolation.Network) {
		return hostNetwork{}
	}
	return network{d.bridge}
}

// hostNetwork is the network resource for agents that share the network of the host.
type hostNetwork struct{}

func (hostNetwork) Name() string { return "network of the host" }

// Ephemeral marks a resource that keeps nothing.
func (hostNetwork) Ephemeral() {}

func (hostNetwork) Ensure(_ context.Context, a *agent.Agent) error {
	a.Network = agent.Network{Address: "127.0.0.1"}
	return nil
}

func (hostNetwork) Remove(context.Context, *agent.Agent) error { return nil }
func (hostNetwork) List(context.Context) ([]string, error)     { return nil, nil }
