package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Patrol is the [patrol] table: how often agents are checked, and after which time what is a
// finding. 0 is never.
type Patrol struct {
	Interval      setting.Duration `toml:"interval"`
	StalledAfter  setting.Duration `toml:"stalled_after"`
	ModelAfter    setting.Duration `toml:"model_after"`
	SpinningAfter setting.Duration `toml:"spinning_after"`
	DoneAfter     setting.Duration `toml:"done_after"`
	Escalation    Escalation       `toml:"escalation"`
}

// PatrolRules are in [roles.NAME.patrol].
type PatrolRules struct {
	// OnStall is what is done about an agent that is stalled or spins: api.OnStallReport ("" too),
	// OnStallNudge, OnStallRestart or OnStallStop.
	OnStall string `toml:"on_stall"`
	// Nudge is the line that a nudge types into its program.
	Nudge string `toml:"nudge"`
}

// defaultNudge is what a nudge types if its role has no text.
const defaultNudge = "You have printed and changed nothing for a while. Continue with the task, or say what you wait for."

func defaultPatrol() Patrol {
	return Patrol{Interval: setting.Duration(10 * time.Second), StalledAfter: setting.Duration(15 * time.Minute), ModelAfter: setting.Duration(time.Hour),
		SpinningAfter: setting.Duration(time.Hour), DoneAfter: setting.Duration(time.Minute), Escalation: defaultEscalation()}
}

// PatrolRules returns what counts for agents of a role.
func (c *Config) PatrolRules(role string) PatrolRules {
	r := c.Roles[role].Patrol
	return PatrolRules{OnStall: cmp.Or(r.OnStall, api.OnStallReport), Nudge: cmp.Or(r.Nudge, defaultNudge)}
}

func (c *Config) checkPatrol() error {
	p := c.Patrol
	if err := c.checkEscalation(); err != nil {
		return err
	}
	for _, f := range []struct {
		name  string
		v     setting.Duration
		least time.Duration
	}{{"interval", p.Interval, time.Second}, {"stalled_after", p.StalledAfter, time.Second}, {"model_after", p.ModelAfter, time.Second}, {"spinning_after", p.SpinningAfter, time.Second}, {"done_after", p.DoneAfter, time.Second}} {
		if v := time.Duration(f.v); v != 0 && (v < f.least || v > 7*24*time.Hour) {
			return api.Errorf(api.CodeInvalidConfig, "patrol.%s = %q: must be 0s, for never, or from %s to 168h", f.name, v, f.least)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Roles)) {
		r := c.Roles[name].Patrol
		switch r.OnStall {
		case "", api.OnStallReport, api.OnStallNudge, api.OnStallRestart, api.OnStallStop:
		default:
			return api.Errorf(api.CodeInvalidConfig, "roles.%s.patrol.on_stall = %q: must be %q, %q, %q or %q", name, api.Shorten(r.OnStall, 64),
				api.OnStallReport, api.OnStallNudge, api.OnStallRestart, api.OnStallStop)
		}
		if len(r.Nudge) > 1000 || strings.ContainsFunc(r.Nudge, func(c rune) bool { return c < ' ' || c == 0x7f }) {
			return api.Errorf(api.CodeInvalidConfig, "roles.%s.patrol.nudge = %q: must be one line of at most 1000 bytes", name, api.Shorten(r.Nudge, 64))
		}
	}
	return nil
}
