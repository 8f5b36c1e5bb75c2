package config

import "polis/daemon/api"

// Delegate is the [delegate] table: workers, which are agents that are made for one task.
type Delegate struct {
	// BaseType is that of a person's worker if none is given; empty: the only one there is.
	BaseType string `toml:"base_type"`
	// Workers is how many an agent may have, those of its workers included; 0: it may delegate
	// nothing. Depth is how deep they may be nested.
	Workers int `toml:"workers"`
	Depth   int `toml:"depth"`
}

// Bounds of the [delegate] table.
const (
	maxWorkers = 100
	maxNesting = 8
)

func defaultDelegate() Delegate { return Delegate{Workers: 4, Depth: 2} }

func (c *Config) checkDelegate() error {
	d := c.Delegate
	if d.BaseType != "" && !typeName.MatchString(d.BaseType) {
		return api.Errorf(api.CodeInvalidConfig, "delegate.base_type = %q: must be the name of a base type: small letters, digits and '-'", api.Shorten(d.BaseType, 64))
	}
	if d.Workers < 0 || d.Workers > maxWorkers {
		return api.Errorf(api.CodeInvalidConfig, "delegate.workers = %d: must be from 0 to %d", d.Workers, maxWorkers)
	}
	if d.Depth < 1 || d.Depth > maxNesting {
		return api.Errorf(api.CodeInvalidConfig, "delegate.depth = %d: must be from 1 to %d", d.Depth, maxNesting)
	}
	return nil
}
