package queue

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

var now = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func flowEntry(agent, id string) api.QueueEntry {
	return api.QueueEntry{Agent: agent, ID: id, By: "task", Tasks: []string{id}}
}

func prompt(s api.MergeSignal) string { return ReworkPrompt(s, "agent/"+s.Agent) }

func TestARequestIsReadyThenMergedOnce(t *testing.T) {
	b := &FlowBook{}
	require.True(t, b.Sync([]api.QueueEntry{flowEntry("a", "a.1")}, "main", now))
	require.False(t, b.Sync([]api.QueueEntry{flowEntry("a", "a.1")}, "main", now), "again")
	require.Equal(t, api.MergeSignalReady, b.Signals()[0].State)
	b.Landed("a.1", api.QueueOutcome{MergeCommitSHA: "c"}, true, api.ReworkOffer, prompt, now)
	b.Landed("a.1", api.QueueOutcome{Code: api.CodeNothingToMerge}, false, api.ReworkOffer, prompt, now)
	b.Sync(nil, "main", now)
	s := b.Signals()[0]
	require.Equal(t, api.MergeSignalMerged, s.State)
	require.Equal(t, "c", s.MergeCommitSHA)
	require.True(t, s.Verified)
}

func TestWhatIsTakenOutIsWithdrawn(t *testing.T) {
	b := &FlowBook{}
	b.Sync([]api.QueueEntry{flowEntry("a", "a.1")}, "main", now)
	b.Sync([]api.QueueEntry{flowEntry("a", "a.2")}, "main", now)
	require.Equal(t, api.MergeSignalReady, b.Signals()[0].State, "its entry is being merged, and another one waits")
	b.Sync(nil, "main", now)
	for _, s := range b.Signals() {
		require.Equal(t, api.MergeSignalWithdrawn, s.State)
	}
}

func TestReworks(t *testing.T) {
	for mode, want := range map[string]api.ReworkState{api.ReworkNone: "", api.ReworkOffer: api.ReworkOffered, api.ReworkNew: api.ReworkWanted, api.ReworkSame: api.ReworkWanted} {
		b := &FlowBook{}
		b.Sync([]api.QueueEntry{flowEntry("a", "a.1"), flowEntry("b", "b.1")}, "main", now)
		b.Landed("a.1", api.QueueOutcome{Code: api.CodeMergeConflict, Paths: []string{"x\ny"}}, false, mode, prompt, now)
		b.Landed("b.1", api.QueueOutcome{Code: api.CodeRefConflict}, false, mode, prompt, now)
		require.Nil(t, b.Signals()[1].Rework, "another attempt is enough")
		_, offered := b.Last("a")
		require.Equal(t, want != "", offered, mode)
		if want == "" {
			continue
		}
		s := b.Signals()[0]
		require.Equal(t, want, s.Rework.State, mode)
		require.Equal(t, mode == api.ReworkSame, s.Rework.Same)
		require.Contains(t, s.Rework.Prompt, `"x\ny"`)
		require.Equal(t, want == api.ReworkWanted, len(b.Reworks()) == 1)
		// The rework of another agent is merged: nothing is left to do.
		s.Rework.State, s.Rework.Agent, s.Rework.Task = api.ReworkStarted, "c", "c.1"
		b.SetRework("a.1", *s.Rework)
		b.Sync([]api.QueueEntry{flowEntry("c", "c.1")}, "main", now)
		require.Equal(t, "a.1", b.Signals()[2].ReworkOf)
		require.Equal(t, 1, b.Signals()[2].Depth)
		b.Landed("c.1", api.QueueOutcome{MergeCommitSHA: "d"}, true, mode, prompt, now)
		require.Equal(t, "c.1", b.Signals()[0].ResolvedBy)
		_, offered = b.Last("a")
		require.False(t, offered)
	}
}

func TestReworksOfReworksEnd(t *testing.T) {
	b := &FlowBook{}
	for n := range MaxDepth + 1 {
		agent, id := fmt.Sprint("a", n), fmt.Sprintf("a%d.1", n)
		b.Sync([]api.QueueEntry{flowEntry(agent, id)}, "main", now)
		b.Landed(id, api.QueueOutcome{Code: api.CodeMergeConflict}, false, api.ReworkNew, prompt, now)
		s := b.Signals()[n]
		require.Equal(t, n < MaxDepth, s.Rework.State == api.ReworkWanted, n)
		s.Rework.State, s.Rework.Agent = api.ReworkStarted, fmt.Sprint("a", n+1)
		b.SetRework(id, *s.Rework)
	}
}

func TestAnIDIsTheSameAfterACrash(t *testing.T) {
	require.Equal(t, "a.7", MergeID(api.QueueEntry{Agent: "a", By: "task", Tasks: []string{"a.7", "a.8"}}))
	require.Equal(t, MergeID(api.QueueEntry{Agent: "a", By: "user", AddedAt: now}), MergeID(api.QueueEntry{Agent: "a", By: "user", AddedAt: now}))
	require.NotEqual(t, MergeID(api.QueueEntry{Agent: "a", By: "user", AddedAt: now}), MergeID(api.QueueEntry{Agent: "a", By: "user", AddedAt: now.Add(time.Second)}))
}

// Whatever happens, with a crash at any moment: every state of a request is published at least once,
// a published result is the result, and no result changes.
func TestEveryResultIsPublished(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := &FlowBook{}
		save := func() []byte {
			out, err := json.Marshal(b.Signals())
			if err != nil {
				rt.Fatal(err)
			}
			return out
		}
		disk, queue, results, published := save(), []api.QueueEntry{}, map[string]api.MergeSignalState{}, map[string][]api.MergeSignalState{}
		saved := []api.QueueEntry{}
		load := func() {
			var s []api.MergeSignal
			if err := json.Unmarshal(disk, &s); err != nil {
				rt.Fatal(err)
			}
			b = &FlowBook{}
			b.Load(s)
			queue = append([]api.QueueEntry{}, saved...)
		}
		publish := func() {
			for _, s := range b.Unpublished() {
				published[s.ID] = append(published[s.ID], s.State)
				b.Published(s.ID, s.State)
			}
		}
		for n := range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 4).Draw(rt, "what") {
			case 0:
				queue = append(queue, flowEntry(fmt.Sprint("a", n), fmt.Sprintf("a%d.1", n)))
			case 1:
				if len(queue) > 0 {
					e, out := queue[0], api.QueueOutcome{MergeCommitSHA: "c"}
					if rapid.Bool().Draw(rt, "fails") {
						out = api.QueueOutcome{Code: api.CodeMergeConflict}
					}
					b.Sync(queue, "main", now)
					b.Landed(e.ID, out, true, api.ReworkOffer, prompt, now)
					queue = queue[1:]
				}
			case 2:
				load() // a crash before the save: the memory is lost
			}
			b.Sync(queue, "main", now)
			disk, saved = save(), append([]api.QueueEntry{}, queue...)
			if rapid.Bool().Draw(rt, "crash after the save") {
				load()
				continue
			}
			publish()
			for _, s := range b.Signals() {
				if old, ok := results[s.ID]; ok && s.State != old {
					rt.Fatalf("%s was %s and is %s", s.ID, old, s.State)
				}
				if s.State != api.MergeSignalReady {
					results[s.ID] = s.State
				}
			}
		}
		load()
		publish()
		for _, s := range b.Signals() {
			if got := published[s.ID]; len(got) == 0 || got[len(got)-1] != s.State {
				rt.Fatalf("%s is %s, and was published as %v", s.ID, s.State, got)
			}
		}
	})
}
