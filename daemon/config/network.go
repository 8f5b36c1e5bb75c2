package config

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"polis/daemon/api"
	"polis/netbridge/egress"
)

// Egress is where an agent's connections may go, as package egress reads it. In
// the file it is one word or a list; nil is what was not said.
type Egress []string

// UnmarshalTOML reads "open", "none", one name, or a list of names.
func (e *Egress) UnmarshalTOML(v any) error {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	*e = Egress{}
	for _, w := range list {
		s, ok := w.(string)
		if !ok {
			return fmt.Errorf(`%v: must be "open", "none", or a list of names`, w)
		}
		*e = append(*e, s)
	}
	return nil
}

// NetworkRules are in [network], and in [roles.NAME.network], where what is not
// said is as in [network].
type NetworkRules struct {
	Egress Egress `toml:"egress"`
	// AllowPrivate are private networks that agents may reach, of those that
	// are never reached otherwise.
	AllowPrivate []string `toml:"allow_private"`
	// HostPorts are TCP ports of the host's 127.0.0.1 that agents reach at their own.
	HostPorts []uint16 `toml:"host_ports"`
}

// Reach is what an agent may reach in the end.
type Reach struct {
	Policy  egress.Policy
	Private []netip.Prefix
	// HostPorts are in order, each once.
	HostPorts []uint16
}

// Own is what an agent has for itself; nil is what was not said.
type Own struct {
	Egress    []string
	HostPorts []uint16
}

// maxHostPorts bounds the listeners that a shim has in an agent's network.
const maxHostPorts = 64

// OwnHostPorts returns the host ports of an agent before any is added or removed.
func (c *Config) OwnHostPorts(role string, own Own) []uint16 { return c.over(role, own).HostPorts }

// over returns the network rules of [network] with those of a role and of an agent in their place.
func (c *Config) over(role string, own Own) NetworkRules {
	r := c.Network.NetworkRules
	over := c.Roles[role].Network
	if over.Egress != nil {
		r.Egress = over.Egress
	}
	if over.AllowPrivate != nil {
		r.AllowPrivate = over.AllowPrivate
	}
	if over.HostPorts != nil {
		r.HostPorts = over.HostPorts
	}
	if own.Egress != nil {
		r.Egress = own.Egress
	}
	if own.HostPorts != nil {
		r.HostPorts = own.HostPorts
	}
	return r
}

// Reach returns what counts for an agent: its own egress over its role's, over
// that of [network]. To a list come the hosts of its base type, unless the gateway
// serves its model. A role that is no more changes nothing.
func (c *Config) Reach(role string, typ BaseType, own Own) (Reach, error) {
	r := c.over(role, own)
	p, err := egress.Parse(r.Egress)
	if err != nil {
		return Reach{}, api.Errorf(api.CodeBadRequest, "egress: %w", err).WithHint(egressHint)
	}
	hosts := typ.Hosts
	if len(c.TypeServices(role, typ)) > 0 {
		hosts = nil // the gateway reaches the model
	}
	if p, err = p.With(hosts); err != nil {
		return Reach{}, api.Errorf(api.CodeInvalidConfig, "egress with the hosts of base type %s: %w", typ.Name, err)
	}
	private, err := egress.ParsePrivate(r.AllowPrivate)
	if err != nil {
		return Reach{}, api.Errorf(api.CodeInvalidConfig, "allow_private: %w", err)
	}
	ports, err := hostPorts(r.HostPorts)
	if err != nil {
		return Reach{}, api.Errorf(api.CodeBadRequest, "host_ports: %w", err)
	}
	return Reach{Policy: p, Private: private, HostPorts: ports}, nil
}

const egressHint = `"open", "none", or names such as "api.example.org" and "*.example.org"; "ask" and "ask:*.example.org" for what a person decides`

func (c *Config) checkNetwork() error {
	tables := map[string]NetworkRules{"network": c.Network.NetworkRules}
	for name, r := range c.Roles {
		tables["roles."+name+".network"] = r.Network
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		r := tables[name]
		if _, err := egress.Parse(r.Egress); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s.egress: %w", name, err).WithHint(egressHint)
		}
		if _, err := egress.ParsePrivate(r.AllowPrivate); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s.allow_private: %w", name, err)
		}
		if _, err := hostPorts(r.HostPorts); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "%s.host_ports: %w", name, err)
		}
	}
	return nil
}

// hostPorts checks ports and puts them in order.
func hostPorts(ports []uint16) ([]uint16, error) {
	out := slices.Compact(slices.Sorted(slices.Values(ports)))
	if len(out) > 0 && out[0] == 0 {
		return nil, fmt.Errorf("port 0: must be from 1 to 65535")
	}
	if len(out) > maxHostPorts {
		return nil, fmt.Errorf("%d ports: at most %d", len(out), maxHostPorts)
	}
	return out, nil
}
