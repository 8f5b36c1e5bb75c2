package queue

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestResultsAreRecordedAndPublishedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		res      MergeResult
		inTarget error // nil: the target has it; errNot: it has not
		state    api.MergeSignalState
		verified bool
		paths    []string
	}{
		"merged":                     {MergeResult{Commit: "c"}, nil, api.MergeSignalMerged, true, nil},
		"merged, and not in target":  {MergeResult{Commit: "c"}, errNot, api.MergeSignalMerged, false, nil},
		"merged, and not to be read": {MergeResult{Commit: "c"}, errors.New("git"), api.MergeSignalMerged, false, nil},
		"in conflict":                {MergeResult{Err: api.Errorf(api.CodeMergeConflict, "x").With("paths", []string{"a"})}, nil, api.MergeSignalFailed, false, []string{"a"}},
		"failed":                     {MergeResult{Err: errors.New("git")}, nil, api.MergeSignalFailed, false, nil},
		"without changes":            {MergeResult{Err: api.Errorf(api.CodeNothingToMerge, "x")}, nil, api.MergeSignalWithdrawn, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var events []api.Event
			r := &Recorder{Workspace: "w", Book: &FlowBook{}, Mode: func() string { return api.ReworkOffer }, Publish: func(e api.Event) { events = append(events, e) }, Log: slog.New(slog.DiscardHandler), Now: time.Now,
				InTarget: func(_ context.Context, commit string) (bool, error) {
					require.Equal(t, "c", commit)
					if errors.Is(c.inTarget, errNot) {
						return false, nil
					}
					return c.inTarget == nil, c.inTarget
				}}
			e := api.QueueEntry{Agent: "alice", By: "task", AddedAt: time.Now()}
			e.ID = MergeID(e)
			r.Book.Sync([]api.QueueEntry{e}, "main", time.Now())
			r.Announce()
			require.Len(t, events, 1)
			c.res.ID, c.res.Agent, c.res.Branch, c.res.Log, c.res.Check = e.ID, "alice", "agent/alice", "/logs/x.log", "make test"
			r.Landed(t.Context(), c.res)
			got := r.Book.Signals()[0]
			require.Equal(t, c.state, got.State)
			require.Equal(t, c.verified, got.Verified)
			require.Equal(t, c.paths, got.Paths)
			require.Equal(t, []string{"make test", "/logs/x.log"}, []string{got.Check, got.Log})
			for range 2 {
				r.Announce()
				require.Len(t, events, 2)
			}
		})
	}
}

var errNot = errors.New("the target does not have it")
