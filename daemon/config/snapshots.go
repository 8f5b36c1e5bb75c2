package config

import (
	"fmt"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/fusefs/policy/glob"
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
	// Ignored are patterns of files that git ignores and that snapshots have all the same.
	Ignored []string `toml:"ignored"`
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
	return checkHeld(s.Ignored)
}

// maxHeld bounds the patterns of snapshots.ignored: each is compared with each file that git ignores.
const maxHeld = 64

// checkHeld checks snapshots.ignored. "**" within a pattern would mean that all directories that git ignores are read.
func checkHeld(patterns []string) error {
	if len(patterns) > maxHeld {
		return api.Errorf(api.CodeInvalidConfig, "snapshots.ignored has %d patterns: the limit is %d", len(patterns), maxHeld)
	}
	for i, text := range patterns {
		p, err := glob.Compile(text)
		switch {
		case err != nil:
			return api.Errorf(api.CodeInvalidConfig, "snapshots.ignored[%d] = %q: %w", i, text, err)
		case p.Negated():
			return negatedRule(fmt.Sprintf("snapshots.ignored[%d]", i), text)
		case strings.Contains(strings.TrimSuffix(text, "/**"), "**"):
			return api.Errorf(api.CodeInvalidConfig, "snapshots.ignored[%d] = %q: \"**\" can only be the end, as in \"data/**\"; a name without a slash, as \".env\", is found in every directory that git does not ignore", i, text)
		}
	}
	return nil
}
