package queue

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheEventsOfSignals(t *testing.T) {
	for name, c := range map[string]struct {
		s    api.MergeSignal
		typ  string
		text string
	}{
		"ready":     {api.MergeSignal{State: api.MergeSignalReady}, api.EventMergeReady, "request r1: the branch of agent a is ready to be merged into main"},
		"merged":    {api.MergeSignal{State: api.MergeSignalMerged}, api.EventMergeMerged, "request r1: the branch of agent a is in main"},
		"failed":    {api.MergeSignal{State: api.MergeSignalFailed, Code: api.CodeCheckFailed, Message: "exit 1"}, api.EventMergeFailed, "request r1: the branch of agent a is not merged: exit 1"},
		"offered":   {api.MergeSignal{State: api.MergeSignalFailed, Code: api.CodeCheckFailed, Message: "exit 1", Rework: &api.Rework{State: api.ReworkOffered}}, api.EventMergeFailed, "request r1: the branch of agent a is not merged: exit 1; polisctl queue rework a gives a new agent the task to resolve it"},
		"withdrawn": {api.MergeSignal{State: api.MergeSignalWithdrawn}, api.EventMergeWithdrawn, "request r1 of agent a was withdrawn"},
		"empty":     {api.MergeSignal{State: api.MergeSignalWithdrawn, Code: api.CodeNothingToMerge}, api.EventMergeWithdrawn, "request r1 of agent a: there is nothing to merge"},
	} {
		t.Run(name, func(t *testing.T) {
			c.s.ID, c.s.Agent, c.s.Target = "r1", "a", "main"
			e := OutcomeEvent("w", c.s)
			require.Equal(t, c.typ, e.Type)
			require.Equal(t, c.text, e.Message)
			require.Equal(t, c.s.Code, e.Code)
			require.Equal(t, map[string]any{"workspace": "w", "signal": c.s}, e.Data)
		})
	}
}
