package daemon

import (
	"context"
	"fmt"
	"strings"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/isolation"
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

// lostWarnings returns the warnings of missing isolation that polisctl status shows.
func (d *Daemon) lostWarnings() []string {
	if len(d.missingIsolation) == 0 {
		return nil
	}
	verb := `agents are refused; sandbox.degraded = "allow" adds them without`
	switch {
	case isolation.Lacks(d.missingIsolation, isolation.Mount):
		verb = "agents are refused"
	case d.live().Sandbox.Degraded == config.DegradedAllow:
		verb = "agents go without"
	}
	out := []string{fmt.Sprintf("%s: isolation is degraded, %s: %s", api.CodeSysboxUnavailable, verb, strings.Join(d.lostNames(), ", "))}
	for _, l := range d.missingIsolation {
		out = append(out, fmt.Sprintf("%s: no %s isolation: %s (%s)", l.Code, l.Capability, l.Cost, l.Found))
	}
	return out
}

func (d *Daemon) lostNames() []string {
	var out []string
	for _, l := range d.missingIsolation {
		out = append(out, l.Capability)
	}
	return out
}

func (d *Daemon) isolationMode() string {
	if len(d.missingIsolation) > 0 {
		return "degraded"
	}
	return "full"
}

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
