package agent

import (
	"math/rand/v2"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/isolation"
	"polis/daemon/store"
)

// Isolated refuses agents that this machine cannot isolate as they should be,
// unless the configuration says that they may go without.
func (m *Manager) Isolated() error {
	if len(m.Lost) == 0 {
		return nil
	}
	l := m.Lost[0]
	if isolation.Lacks(m.Lost, isolation.Mount) {
		return api.Errorf(l.Code, "agents cannot be isolated on this machine: %s (%s)", l.Cost, l.Found).WithHint("polisctl doctor says what is missing and how to get it")
	}
	if m.config().Sandbox.Degraded == config.DegradedAllow {
		return nil
	}
	return api.Errorf(l.Code, "this machine gives agents no %s of their own: %s (%s)", strings.Join(m.lostNames(), ", "), l.Cost, l.Found).With("lost", m.Lost).
		WithHint(`polisctl doctor says how to get it; sandbox.degraded = "allow" in polisd.toml adds agents without`)
}

func (m *Manager) lostNames() []string {
	var out []string
	for _, l := range m.Lost {
		out = append(out, l.Capability)
	}
	return out
}

// SharesNetwork says whether agents are in the host's network.
func (m *Manager) SharesNetwork() bool { return isolation.Lacks(m.Lost, isolation.Network) }

// reachable refuses an egress that cannot be read, or not be kept: in the host's
// network nobody is held back, so who is to be, is not to be there.
func (m *Manager) reachable(c config.Config, role string, typ config.BaseType, own config.Own) error {
	r, err := c.Reach(role, typ, own)
	if err != nil || !m.SharesNetwork() || r.Policy.Open() {
		return err
	}
	return api.Errorf(api.CodeNetNSFailed, "egress %s cannot be kept on this machine: agents share the host's network", api.Shorten(r.Policy.String(), 200)).
		WithHint("polisctl doctor says how to get them a network of their own; without, only egress open is possible")
}

// isolation says on a what it goes without.
func (m *Manager) isolation(a *api.Agent) {
	a.Isolation = "full"
	if len(m.Lost) > 0 {
		a.Isolation, a.Lost = "degraded", m.lostNames()
	}
}

// portTries bounds the search for a port by chance.
const portTries = 32

// hostMaps says which external ports an agent in the host's network shall have,
// if they are free: one for each port that was asked for, or one if none was, as
// it has to be told where to listen. They are chosen by chance (seed 000, degraded
// mode): neighbours do not run into one another's habits.
func (m *Manager) hostMaps(maps []store.PortMap) []store.PortMap {
	c := m.config()
	lo, hi := c.PortRange()
	chance := func() int { return lo + rand.IntN(hi-lo+1) }
	if len(maps) == 0 {
		// Its own number inside, too: there is no other. One that is taken is as good
		// as none, so that it will rarely differ.
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

// portTaken says whether an external port is some agent's.
func (m *Manager) portTaken(external int) bool {
	return slices.ContainsFunc(m.PortMappings(), func(p api.PortMapping) bool { return p.External == external })
}
