package config

import "polis/daemon/api"

// MemoryAsk is the [limits.memory_ask] table: an agent that needs a part of its memory limit asks
// for a higher one.
type MemoryAsk struct {
	// At is the part, in percent.
	At int `toml:"at"`
	// StepMB is how much an approval adds; 0: no agent asks.
	StepMB int `toml:"step_mb"`
	// MaxMB is the highest limit that approvals lead to.
	MaxMB int `toml:"max_mb"`
}

func (m MemoryAsk) check() error {
	bad := func(field string, v int, rule string) error {
		return api.Errorf(api.CodeInvalidConfig, "limits.memory_ask.%s = %d: %s", field, v, rule)
	}
	switch {
	case m.At < 50 || m.At > 99:
		return bad("at", m.At, "must be from 50 to 99 percent")
	case m.StepMB != 0 && (m.StepMB < 16 || m.StepMB > 1<<20):
		return bad("step_mb", m.StepMB, "must be 0 (no agent asks) or from 16 to 1048576")
	case m.StepMB != 0 && (m.MaxMB < 16 || m.MaxMB > 1<<20):
		return bad("max_mb", m.MaxMB, "must be from 16 to 1048576 if step_mb is set")
	case m.StepMB == 0 && m.MaxMB != 0:
		return bad("max_mb", m.MaxMB, "needs step_mb")
	}
	return nil
}
