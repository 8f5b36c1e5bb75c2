package timeline

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

func TestACheckpointIsNamedByWhatItWasMadeBefore(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	ids := map[string]string{}
	for i, c := range []struct {
		name string
		mark Mark
	}{
		{"before task 3", BeforeTask(api.Task{ID: "a.3", Prompt: "fix it"})},
		{"before merge 12", BeforeMerge(api.QueueEntry{Seq: 12}, "main")},
		{"before merge 13", BeforeMerge(api.QueueEntry{Seq: 13}, "main")},
		{"before rebase", BeforeRebase("main")},
		{"before tool Bash", BeforeTool("Bash", "Bash make")},
		{"before tool a b", BeforeTool("a b", "")},
	} {
		w.put("a", fmt.Sprint(i))
		s, made, err := w.l.Checkpoint(t.Context(), "a", c.mark)
		require.NoError(t, err)
		require.True(t, made, c.name)
		ids[c.name] = s.ID
	}
	ids["before tool"], ids["before merge"], ids["before task a.3"] = ids["before tool a b"], ids["before merge 13"], ids["before task 3"]
	for name, id := range ids {
		s, err := w.l.At(t.Context(), "a", name)
		require.NoError(t, err, name)
		require.Equal(t, id, s.ID, name)
	}
	for _, name := range []string{"before merge 1", "before tool make", "before the end", "before "} {
		_, err := w.l.At(t.Context(), "a", name)
		require.Equal(t, api.CodeNotFound, api.CodeOf(err), name)
	}
}

// A merge has a checkpoint of its own even if nothing has changed, and only one if it is tried again. A
// call of a tool has none: it is the state before.
func TestACheckpointOfNoChangeIsMadeForWhatPeopleName(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "1")
	w.checkpoint()
	for _, c := range []struct {
		mark Mark
		made bool
	}{
		{BeforeTool("Bash", ""), false},
		{BeforeMerge(api.QueueEntry{Seq: 1}, "main"), true},
		{BeforeMerge(api.QueueEntry{Seq: 1}, "main"), false},
		{BeforeMerge(api.QueueEntry{Seq: 2}, "main"), true},
		{BeforeRebase("main"), true},
		{Mark{Why: api.SnapshotByAgent}, false},
		{BeforeTask(api.Task{ID: "a.1"}), true},
		{BeforeTask(api.Task{ID: "a.2"}), true},
	} {
		_, made, err := w.l.Checkpoint(t.Context(), "a", c.mark)
		require.NoError(t, err)
		require.Equal(t, c.made, made, c.mark)
	}
}

// An agent without a view has no set of changed paths: its whole tree is read, and compared.
func TestAWholeTreeThatHasNotChangedIsNoCheckpoint(t *testing.T) {
	for name, lose := range map[string]func(w *world){
		"another shim": func(w *world) { w.h.set = changed.New() },
		"no shim":      func(w *world) { w.h.set = nil },
	} {
		t.Run(name, func(t *testing.T) {
			w := start(t)
			w.h.set = changed.New()
			w.put("a", "1")
			w.checkpoint()
			w.put("b", "2")
			first, made := w.checkpoint()
			require.True(t, made)
			lose(w)
			again, made := w.checkpoint()
			require.False(t, made)
			require.Equal(t, first.ID, again.ID)
			if w.h.set != nil {
				w.put("a", "2")
				s, made := w.checkpoint()
				require.True(t, made)
				require.Empty(t, s.Whole, "the last one is continued")
			}
			w.restart()
			w.write("c", "3")
			w.h.set = nil
			s, made := w.checkpoint()
			require.True(t, made)
			require.NotEmpty(t, s.Whole)
			v, err := w.l.Verify(t.Context(), first.ID)
			require.NoError(t, err)
			require.True(t, v.Intact)
		})
	}
}

// TestAStormOfToolCallsLeavesTheOthers: an agent that calls tools without end has as many checkpoints as
// it may have, and those before its tasks and merges stay.
func TestAStormOfToolCallsLeavesTheOthers(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits.Keep = 10
	var kept []string
	for i := range 4 {
		w.put("a", fmt.Sprint("task ", i))
		s, _, err := w.l.Checkpoint(t.Context(), "a", BeforeTask(api.Task{ID: fmt.Sprint("a.", i+1)}))
		require.NoError(t, err)
		kept = append(kept, s.ID)
		for j := range 50 {
			w.put("a", fmt.Sprint(i, j))
			_, _, err := w.l.Checkpoint(t.Context(), "a", BeforeTool(strings.Repeat("x", 1000), strings.Repeat("y", 1000)))
			require.NoError(t, err)
		}
	}
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), 10)
	for _, id := range kept {
		_, ok, err := w.l.Find(t.Context(), id)
		require.NoError(t, err)
		require.True(t, ok)
	}
	require.LessOrEqual(t, len(all[len(all)-1].For)+len(all[len(all)-1].Note), 200)
	w.now = w.now.Add(time.Second)
	require.NoError(t, w.l.Collect(t.Context()))
	for i := range 50 { // without tools the oldest go
		w.put("a", fmt.Sprint("later ", i))
		_, _, err := w.l.Checkpoint(t.Context(), "a", BeforeTask(api.Task{ID: fmt.Sprint("a.", i+10)}))
		require.NoError(t, err)
	}
	all, err = w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), 10)
}

// TestAnAgentThatIsHeldWaitsForNoOtherCheckpointOfItself: that one waits for the agent before it takes the
// turn of the store.
func TestAnAgentThatIsHeldWaitsForNoOtherCheckpointOfItself(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "1")
	w.checkpoint()
	for _, other := range []func() error{
		func() error { _, _, err := w.l.Checkpoint(t.Context(), "a", Mark{Why: api.SnapshotByTime}); return err },
		func() error { _, err := w.l.Create(t.Context(), "a", api.SnapshotRequest{}); return err },
		func() error { _, err := w.l.Rewind(t.Context(), "a", api.RewindRequest{}); return err },
	} {
		done := make(chan error, 1)
		require.NoError(t, w.h.Hold(t.Context(), "a", func(ctx context.Context, still Still) error {
			go func() { done <- other() }()
			select {
			case err := <-done:
				t.Errorf("it did not wait: %v", err)
			case <-time.After(50 * time.Millisecond):
			}
			mark := BeforeTask(api.Task{ID: "a.1"})
			mark.Still = still
			_, made, err := w.l.Checkpoint(ctx, "a", mark)
			require.True(t, made)
			return err
		}))
		require.NoError(t, <-done)
	}
}
