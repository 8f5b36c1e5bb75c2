package config

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/setting"
)

// Snapshots is the [snapshots] table.
type Snapshots struct {
	// TTL is how long a snapshot is kept that no user made; 0: until a user removes it.
	TTL setting.Duration `toml:"ttl"`
	// Every is the time between two checkpoints of an agent that runs; 0: none are made by themselves.
	Every setting.Duration `toml:"every"`
	// Keep is how many checkpoints an agent has; the oldest are removed.
	Keep int `toml:"keep"`
	// AgentMB bounds the files of one snapshot, and what the snapshots of one agent add together, in
	// MiB.
	AgentMB int `toml:"agent_mb"`
	// MaxMB bounds what the snapshots of a workspace take together, in MiB.
	MaxMB int `toml:"max_mb"`
}

func defaultSnapshots() Snapshots {
	return Snapshots{TTL: setting.Duration(7 * 24 * time.Hour), Every: setting.Duration(time.Minute), Keep: 300, AgentMB: 4 << 10, MaxMB: 16 << 10}
}

func (c *Config) checkSnapshots() error {
	s := c.Snapshots
	if ttl := time.Duration(s.TTL); ttl != 0 && (ttl < time.Hour || ttl > 87600*time.Hour) {
		return api.Errorf(api.CodeInvalidConfig, "snapshots.ttl = %q: must be 0s, or from 1h to 87600h", ttl)
	}
	if e := time.Duration(s.Every); e != 0 && (e < time.Second || e > 24*time.Hour) {
		return api.Errorf(api.CodeInvalidConfig, "snapshots.every = %q: must be 0s, or from 1s to 24h", e)
	}
	if s.Keep < 2 || s.Keep > 10000 {
		return api.Errorf(api.CodeInvalidConfig, "snapshots.keep = %d: must be from 2 to 10000", s.Keep)
	}
	for key, n := range map[string]int{"agent_mb": s.AgentMB, "max_mb": s.MaxMB} {
		if n < 1 || n > 1<<30 {
			return api.Errorf(api.CodeInvalidConfig, "snapshots.%s = %d: must be from 1 to %d", key, n, 1<<30)
		}
	}
	return nil
}
