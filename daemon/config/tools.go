package config

import (
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/daemon/approval"
)

func (c *Config) checkTools() error {
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if _, err := approval.Compile(c.Roles[name].Tools); err != nil {
			return api.Errorf(api.CodeInvalidConfig, "roles.%s.tools.%w", name, err)
		}
	}
	return nil
}
