package config

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Receipts is the [receipts] table.
type Receipts struct {
	// MaxMB bounds the log of a workspace, and the logs of its removed agents together, in MiB.
	MaxMB int `toml:"max_mb"`
	// AgentMB bounds the log of one agent, in MiB.
	AgentMB int `toml:"agent_mb"`
	// Keep is how long the log of a removed agent is kept.
	Keep setting.Duration `toml:"keep"`
	// AuditOnFull is what happens while receipts cannot be written: AuditDrop or AuditDeny.
	AuditOnFull string `toml:"audit_on_full"`
}

// Values of Receipts.AuditOnFull.
const (
	// AuditDrop drops receipts, and counts them.
	AuditDrop = "drop"
	// AuditDeny refuses what must be recorded.
	AuditDeny = "deny"
)

func defaultReceipts() Receipts {
	return Receipts{MaxMB: 64, AgentMB: 16, Keep: setting.Duration(30 * 24 * time.Hour), AuditOnFull: AuditDrop}
}

// Values of audit of a role and of an agent; "" is AuditStandard.
const (
	// AuditStandard records what polis decides and refuses.
	AuditStandard = "standard"
	// AuditFull records what the agent opens and changes, too.
	AuditFull = "full"
)

// AuditsFully reports whether what an agent of a role opens is recorded.
func (c *Config) AuditsFully(agent, role string) bool {
	return cmp.Or(c.Agents[agent].Audit, c.Roles[role].Audit) == AuditFull
}

func (c *Config) checkAudit() error {
	bad := func(key, v string) error {
		if v == "" || v == AuditStandard || v == AuditFull {
			return nil
		}
		return api.Errorf(api.CodeInvalidConfig, "%s.audit = %q: must be \"standard\" or \"full\"", key, api.Shorten(v, 64))
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		if err := bad("roles."+name, c.Roles[name].Audit); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		if err := bad("agents."+name, c.Agents[name].Audit); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) checkReceipts() error {
	if err := errors.Join(c.checkAudit(), c.checkModes()); err != nil {
		return err
	}
	r := c.Receipts
	for key, n := range map[string]int{"max_mb": r.MaxMB, "agent_mb": r.AgentMB} {
		if n < 1 || n > 1<<20 {
			return api.Errorf(api.CodeInvalidConfig, "receipts.%s = %d: must be from 1 to %d", key, n, 1<<20)
		}
	}
	if keep := time.Duration(r.Keep); keep < time.Hour || keep > 87600*time.Hour {
		return api.Errorf(api.CodeInvalidConfig, "receipts.keep = %q: must be from 1h to 87600h", keep)
	}
	if r.AuditOnFull != AuditDrop && r.AuditOnFull != AuditDeny {
		return api.Errorf(api.CodeInvalidConfig, "receipts.audit_on_full = %q: must be \"drop\" or \"deny\"", api.Shorten(r.AuditOnFull, 64))
	}
	return nil
}
