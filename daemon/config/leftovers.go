package config

import (
	"cmp"
	"maps"
	"slices"

	"polis/daemon/api"
)

// Leftovers returns what is done about processes that a command of an agent of the role, with a
// rule of its own or "",
// left running when it ended.
func (c *Config) Leftovers(role, own string) string {
	return cmp.Or(own, c.Roles[role].Leftovers, api.LeftoversKeep)
}

func (c *Config) checkLeftovers() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		switch v := c.Roles[name].Leftovers; v {
		case "", api.LeftoversKeep, api.LeftoversEnd, api.LeftoversAsk:
		default:
			return api.Errorf(api.CodeInvalidConfig, "roles.%s.leftovers = %q: must be %q, %q or %q", name, api.Shorten(v, 64), api.LeftoversKeep, api.LeftoversEnd, api.LeftoversAsk)
		}
	}
	return nil
}
