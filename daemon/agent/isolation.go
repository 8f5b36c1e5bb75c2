package agent

import (
	"math/rand/v2"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/isolation"
	"polis/daemon/store"
)

// Isolated refuses agents if this machine cannot isolate them fully, unless the configuration
// allows that.
func (m *Manager) Isolated() error {
	if len(m.Lost) == 0 {
		return nil
	}
	l := m.Lost[0]
	if isolation.Lacks(m.Lost, isolation.Mount) {
		return api.Errorf(l.Code, "agents cannot be isolated on this machine: %s (%s)", l.Cost, l.Found).WithHint("polisctl doctor shows what is missing and how to get it")
	}
	if m.config().Sandbox.Degraded == config.DegradedAllow {
		return nil
	}
	return api.Errorf(l.Code, "this machine gives agents no %s of their own: %s (%s)", strings.Join(m.lostNames(), ", "), l.Cost, l.Found).With("lost", m.Lost).
		WithHint(`polisctl doctor shows how to get it; sandbox.degraded = "allow" in polisd.toml adds agents without`)
}

func (m *Manager) lostNames() []string {
	var out []string
	for _, l := range m.Lost {
		out = append(out, l.Capability)
	}
	return out
}

// SharesNetwork reports whether agents use the host's network.
func (m *Manager) SharesNetwork() bool { return isolation.Lacks(m.Lost, isolation.Network) }

// reachable refuses an egress that is malformed or cannot be enforced: in the host's network no
// agent can be restricted.
func (m *Manager) reachable(c config.Config, role string, typ config.BaseType, own config.Own) error {
	r, err := c.Reach(role, typ, own)
	if err != nil || !m.SharesNetwork() || r.Policy.Open() {
		return err
	}
	return api.Errorf(api.CodeNetNSFailed, "egress %s cannot be enforced on this machine: agents share the host's network", api.Shorten(r.Policy.String(), 200)).
		WithHint("polisctl doctor shows how to get them a network of their own; without one, only egress open is possible")
}

// isolation sets the isolation that an agent lacks.
func (m *Manager) isolation(a *api.Agent) {
	a.Isolation = "full"
	if len(m.Lost) > 0 {
		a.Isolation, a.Lost = "degraded", m.lostNames()
	}
}

// portTries is how often a random port is drawn.
const portTries = 32

// hostMaps chooses free external ports for an agent in the host's network: one for each requested
// port, or one if none was requested, because the agent needs a port to listen on. They are random
// (seed 000, degraded mode), so that agents do not collide.
func (m *Manager) hostMaps(maps []store.PortMap) []store.PortMap {
	c := m.config()
	lo, hi := c.PortRange()
	chance := func() int { return lo + rand.IntN(hi-lo+1) }
	if len(maps) == 0 {
		// The internal port is the same: the agent has no other network. If another program has
		// taken it, the next attempt draws another.
		port := chance()
		for range portTries {
			if !m.portTaken(port) {
				break
			}
			port = chance()
		}
		return []store.PortMap{{Internal: port, External: port, Protocol: api.ProtoTCP}}
	}
	out := slices.Clone(maps)
	for i := range out {
		if out[i].External == 0 {
			out[i].External = chance()
		}
	}
	return out
}

// portTaken reports whether an external port belongs to an agent.
func (m *Manager) portTaken(external int) bool {
	return slices.ContainsFunc(m.PortMappings(), func(p api.PortMapping) bool { return p.External == external })
}
