package patrol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestAPersonIsNotifiedAgainMoreAndMoreRarely(t *testing.T) {
	opened := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	c := api.Case{State: api.CasePending, Opened: opened}
	var at []time.Duration
	for now := opened; now.Before(opened.Add(40 * time.Hour)); now = now.Add(time.Minute) {
		if Due(c, time.Hour, now) {
			at = append(at, now.Sub(opened))
			c.Escalated++
			c.EscalatedAt = now
		}
	}
	require.Equal(t, []time.Duration{0, time.Hour, 3 * time.Hour, 7 * time.Hour, 15 * time.Hour, 31 * time.Hour}, at)

	for name, tc := range map[string]struct {
		c     api.Case
		again time.Duration
		want  bool
	}{
		"once, if it is not repeated":   {api.Case{State: api.CasePending, Opened: opened, Escalated: 1}, 0, false},
		"a new one, if not repeated":    {api.Case{State: api.CaseZombieDetected, Opened: opened}, 0, true},
		"one that the queue works on":   {api.Case{State: api.CaseMergeRequested, Opened: opened}, time.Hour, false},
		"one that is resolved":          {api.Case{State: api.CaseResolved, Opened: opened}, time.Hour, false},
		"one of an earlier version":     {api.Case{State: api.CasePending, Opened: opened, Escalated: 3}, time.Hour, true},
		"the first came very late":      {api.Case{State: api.CasePending, Opened: opened, Escalated: 1, EscalatedAt: opened.Add(999*time.Hour + time.Minute)}, time.Hour, false},
		"after very many notifications": {api.Case{State: api.CasePending, Opened: opened, Escalated: 1 << 40}, 24 * time.Hour, false},
	} {
		require.Equal(t, tc.want, Due(tc.c, tc.again, opened.Add(1000*time.Hour)), name)
	}
}
