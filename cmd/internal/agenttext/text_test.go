package agenttext

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestThoseThatWaitForAPersonComeFirst(t *testing.T) {
	agents := []api.Agent{
		{Name: "a"}, {Name: "b", Waiting: &api.Waiting{For: api.WaitingLease}}, {Name: "c", Waiting: &api.Waiting{For: api.WaitingApproval}},
		{Name: "d"}, {Name: "e", Waiting: &api.Waiting{For: api.WaitingThaw}},
	}
	slices.SortStableFunc(agents, ByNeed)
	var names string
	for _, g := range agents {
		names += g.Name
	}
	require.Equal(t, "ceabd", names)
}

func TestWhatAnAgentWaitsForIsOneSentence(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 30, 0, 0, time.UTC)
	since := now.Add(-3 * time.Minute)
	for want, w := range map[string]api.Waiting{
		"frozen 3m ago: too many deletions":                                                     {For: api.WaitingThaw, Since: since, What: "too many deletions"},
		"has waited 3m for main.go, which bob holds":                                            {For: api.WaitingLease, Since: since, What: "main.go, which bob holds"},
		"has waited 3m for your answer to a.1: make a... (and 1 more: polisctl approvals list)": {For: api.WaitingApproval, Since: since, ID: "a.1", What: "make\u00a0all", Open: 2},
		"has waited - for your answer to a.1: make":                                             {For: api.WaitingApproval, ID: "a.1", What: "make", Open: 1},
	} {
		require.Equal(t, want, Waited(&w, now, 6))
	}
	require.Equal(t, "has waited - for your answer to a.1: make (and 2 more: A)", WaitedBy(&api.Waiting{For: api.WaitingApproval, ID: "a.1", What: "make", Open: 3}, now, 6, "A"))
	require.Equal(t, "first...", FirstLine("first\r\nsecond", 20), "a line can end in CR LF")
	require.Equal(t, "waiting for approval", WaitingState(&api.Waiting{For: api.WaitingApproval}))
	require.Equal(t, "frozen", WaitingState(&api.Waiting{For: api.WaitingThaw}))
}
