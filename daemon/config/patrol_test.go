package config

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestPatrol(t *testing.T) {
	c, err := Parse("[patrol]\ninterval = \"0s\"\nstalled_after = \"5m\"\n[roles.a.patrol]\non_stall = \"nudge\"\nnudge = \"continue\"\n[roles.b]\n")
	require.NoError(t, err)
	require.Zero(t, c.Patrol.Interval)
	require.Equal(t, 5*time.Minute, time.Duration(c.Patrol.StalledAfter))
	require.Equal(t, time.Hour, time.Duration(c.Patrol.SpinningAfter), "the default")
	require.Equal(t, time.Hour, time.Duration(c.Patrol.ModelAfter), "the default")
	require.Equal(t, PatrolRules{OnStall: api.OnStallNudge, Nudge: "continue"}, c.PatrolRules("a"))
	require.Equal(t, PatrolRules{OnStall: api.OnStallReport, Nudge: defaultNudge}, c.PatrolRules("b"))
	require.Equal(t, c.PatrolRules("b"), c.PatrolRules(""))
	for text, want := range map[string]string{
		"[patrol]\ninterval = \"1ms\"\n":              `patrol.interval = "1ms": must be 0s, for never, or from 1s to 168h`,
		"[patrol]\nstalled_after = \"169h\"\n":        "patrol.stalled_after",
		"[patrol]\nmodel_after = \"169h\"\n":          "patrol.model_after",
		"[patrol]\nspinning_after = \"-1s\"\n":        "patrol.spinning_after",
		"[patrol]\ndone_after = \"999ms\"\n":          "patrol.done_after",
		"[roles.a.patrol]\non_stall = \"kill\"\n":     `roles.a.patrol.on_stall = "kill": must be "report", "nudge", "restart" or "stop"`,
		"[roles.a.patrol]\nnudge = \"two\\nlines\"\n": "roles.a.patrol.nudge",
		"[patrol]\nevery = \"10s\"\n":                 "every",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
