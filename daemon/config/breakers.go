package config

import (
	"maps"
	"slices"

	"polis/daemon/api"
)

// defaultDeletions is above what people and programs do on purpose in a minute, git aside.
const defaultDeletions = 5000

// Breakers is the [breakers] table, and [roles.NAME.breakers], which changes single keys of it. nil:
// as configured for all, 0: off.
type Breakers struct {
	Denials   *int64 `toml:"denials"`
	Deletions *int64 `toml:"deletions"`
	WrittenMB *int64 `toml:"written_mb"`
	Names     *int64 `toml:"names"`
	Repeats   *int64 `toml:"repeats"`
}

func (b Breakers) each(f func(key string, v *int64, most int64) error) error {
	for _, k := range []struct {
		key  string
		v    *int64
		most int64
	}{{api.BreakerDenials, b.Denials, 1_000_000}, {api.BreakerDeletions, b.Deletions, 1_000_000}, {api.BreakerWritten, b.WrittenMB, 1 << 20},
		{api.BreakerNames, b.Names, 100_000}, {api.BreakerRepeats, b.Repeats, 10_000}} {
		if err := f(k.key, k.v, k.most); err != nil {
			return err
		}
	}
	return nil
}

// BreakersOf returns the limits for agents of a role.
func (c *Config) BreakersOf(role string) api.Breakers {
	out := api.Breakers{Deletions: defaultDeletions}
	for _, b := range []Breakers{c.Breakers, c.Roles[role].Breakers} {
		for _, k := range []struct {
			v  *int64
			to *int64
		}{{b.Denials, &out.Denials}, {b.Deletions, &out.Deletions}, {b.WrittenMB, &out.WrittenMB}, {b.Names, &out.Names}, {b.Repeats, &out.Repeats}} {
			if k.v != nil {
				*k.to = *k.v
			}
		}
	}
	return out
}

func (c *Config) checkBreakers() error {
	check := func(table string, b Breakers) error {
		return b.each(func(key string, v *int64, most int64) error {
			if v != nil && (*v < 0 || *v > most) {
				return api.Errorf(api.CodeInvalidConfig, "%s.%s = %d: must be 0, for off, or from 1 to %d", table, key, *v, most)
			}
			return nil
		})
	}
	if err := check("breakers", c.Breakers); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if err := check("roles."+name+".breakers", c.Roles[name].Breakers); err != nil {
			return err
		}
	}
	return nil
}
