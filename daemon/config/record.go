package config

import (
	"cmp"
	"maps"
	"slices"

	"polis/daemon/api"
)

// Values of policy of a role and of an agent; "" is PolicyEnforce.
const (
	// PolicyEnforce refuses what the rules do not allow.
	PolicyEnforce = "enforce"
	// PolicyRecord records what the agent uses, as input for a role. The lists read and write do
	// not restrict it; everything else does.
	PolicyRecord = "record"
)

// RecordsPolicy reports whether what an agent of a role uses is recorded, and its lists read and write do
// not restrict it.
func (c *Config) RecordsPolicy(agent, role string) bool {
	return cmp.Or(c.Agents[agent].Mode, c.Roles[role].Mode) == PolicyRecord
}

func (c *Config) checkModes() error {
	bad := func(key, v string) error {
		if v == "" || v == PolicyEnforce || v == PolicyRecord {
			return nil
		}
		return api.Errorf(api.CodeInvalidConfig, "%s.policy = %q: must be \"enforce\" or \"record\"", key, api.Shorten(v, 64))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if err := bad("roles."+name, c.Roles[name].Mode); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if err := bad("agents."+name, c.Agents[name].Mode); err != nil {
			return err
		}
	}
	return nil
}
