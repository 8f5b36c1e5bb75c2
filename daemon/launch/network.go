package launch

import (
	"context"
	"net/netip"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/host/isolation"
	"polis/netbridge"
	"polis/netbridge/egress"
)

// Network returns the resource that connects agents to a network.
func (s *Shims) Network() agent.Resource {
	if s.Lacks(isolation.Network) {
		return hostNetwork{}
	}
	return network{s.Bridge}
}

// network is the resource that makes and removes the network namespaces of agents.
type network struct{ b *netbridge.Bridge }

func (network) Name() string { return "network namespace" }

// Ephemeral marks a resource that only a running shim needs.
func (network) Ephemeral() {}

func (n network) Ensure(ctx context.Context, a *agent.Agent) error {
	ep, err := n.b.Ensure(ctx, a.Name())
	if err != nil {
		return api.Errorf(api.CodeNetNSFailed, "make the network of agent %s: %w", a.Name(), err)
	}
	a.Network = agent.Network{NetNS: ep.NetNS, Address: ep.Addr.String(), Table: ep.Table, Link: ep.Link}
	return nil
}

func (n network) Remove(ctx context.Context, a *agent.Agent) error { return n.b.Remove(ctx, a.Name()) }

func (n network) List(ctx context.Context) ([]string, error) { return n.b.List(ctx) }

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

// OpenGate opens the gate for a shim of a version without egress rules; later shims open it
// themselves.
func (s *Shims) OpenGate(ctx context.Context, a *agent.Agent, entries, private []string) error {
	addr, err := netip.ParseAddr(a.Network.Address)
	if err != nil {
		return err
	}
	var e netbridge.Egress
	if e.Policy, err = egress.Parse(entries); err != nil {
		return err
	}
	if e.Private, err = egress.ParsePrivate(private); err != nil {
		return err
	}
	return s.Bridge.Gate(a.Name(), addr).Set(ctx, e, nil, nil)
}
