package timeline

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

func (w *world) own() Own { return Own{Timeline: w.l, Agent: "a"} }

func TestAnAgentGoesBackByItsRules(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("out/a", "1")
	w.put("other", "1")
	first, err := w.own().Do(t.Context(), api.TimelineRequest{Op: api.TimelineCheckpoint, Note: "good"})
	require.NoError(t, err)
	require.Equal(t, []any{api.SnapshotByAgent, true, "good"}, []any{first.Checkpoints[0].Why, first.Checkpoints[0].ByAgent, first.Checkpoints[0].Note})
	id := first.Checkpoints[0].ID
	w.put("out/a", "2")
	back := func(paths ...string) (api.TimelineResponse, error) {
		return w.own().Do(t.Context(), api.TimelineRequest{Op: api.TimelineRewind, Rewind: &api.RewindRequest{To: id, Paths: paths}})
	}
	res, err := back()
	require.NoError(t, err)
	require.Equal(t, []string{"out/a"}, res.Restored.Paths)
	before, _, err := w.l.Find(t.Context(), res.Restored.Before)
	require.NoError(t, err)
	require.True(t, before.ByAgent)

	// A person changed what it may not write.
	w.put("out/a", "3")
	w.put("other", "2")
	_, err = back()
	require.Equal(t, api.CodeUndeclaredWrite, api.CodeOf(err))
	require.NotContains(t, err.Error(), "other")
	require.Equal(t, []string{"3", "2"}, []string{w.read("out/a"), w.read("other")})
	_, err = back("out")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2"}, []string{w.read("out/a"), w.read("other")})
	_, err = w.l.Restore(t.Context(), id, api.SnapshotRestoreRequest{})
	require.NoError(t, err, "a person is not bound by them")
}

func TestAnAgentHasItsOwnCheckpointsOnly(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("out/a", "1")
	old, _ := w.checkpoint()
	other, _, err := w.l.Checkpoint(t.Context(), "b", Mark{Why: api.SnapshotByTime})
	require.NoError(t, err)
	since := w.now
	w.put("out/a", "2")
	mine, _ := w.checkpoint()
	o := w.own()
	o.Since = since
	list, err := o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineList})
	require.NoError(t, err)
	require.Len(t, list.Checkpoints, 1)
	require.Equal(t, mine.ID, list.Checkpoints[0].ID)
	for _, to := range []string{old.ID, other.ID, "1h"} {
		_, err := o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineRewind, Rewind: &api.RewindRequest{To: to}})
		require.Equal(t, api.CodeNotFound, api.CodeOf(err), to)
		var e *api.Error
		require.True(t, errors.As(err, &e))
		require.Equal(t, "polisctl timeline lists the checkpoints", e.Hint)
	}
	var mounted []string
	o.Mount = func(_ context.Context, s Stored) (api.SnapshotMount, error) {
		mounted = append(mounted, s.ID)
		return api.SnapshotMount{ID: s.ID, Inside: true}, nil
	}
	for _, which := range []string{old.ID, other.ID, "1h"} {
		_, err = o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineMount, Which: which})
		require.Equal(t, api.CodeNotFound, api.CodeOf(err), which)
	}
	for _, which := range []string{"", mine.ID, "0s"} {
		res, err := o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineMount, Which: which})
		require.NoError(t, err)
		require.Equal(t, mine.ID, res.Mounted.ID)
	}
	require.Equal(t, []string{mine.ID, mine.ID, mine.ID}, mounted)
	_, err = o.Do(t.Context(), api.TimelineRequest{Op: "steal"})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

func TestNamesThatAreHiddenFromTheAgentAreNotListed(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("out/a", "1")
	w.checkpoint()
	o := w.own()
	o.Hidden = func(path string) bool { return path == "out/key" }
	w.put("out/a", "2")
	w.put("out/key", "a person's")
	made, err := o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineCheckpoint})
	require.NoError(t, err)
	list, err := o.Do(t.Context(), api.TimelineRequest{Op: api.TimelineList})
	require.NoError(t, err)
	for _, s := range []api.Snapshot{made.Checkpoints[0], list.Checkpoints[len(list.Checkpoints)-1]} {
		require.Equal(t, made.Checkpoints[0].ID, s.ID)
		require.Equal(t, []string{"out", "out/a"}, s.Changed)
	}
	kept, _, err := w.l.Find(t.Context(), made.Checkpoints[0].ID)
	require.NoError(t, err)
	require.Equal(t, []string{"out", "out/a", "out/key"}, kept.Changed, "people see it")
}

// TestOwnRewindsAreBounded: an agent that goes back without end keeps the last of what these replaced, and
// all of what people's replaced.
func TestOwnRewindsAreBounded(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.limits.Keep = 10
	w.put("out/a", "first")
	first, _ := w.checkpoint()
	w.put("out/a", "only here")
	user, err := w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	var last api.TimelineResponse
	for i := range maxOwn + 20 {
		w.put("out/a", fmt.Sprint(i))
		last, err = w.own().Do(t.Context(), api.TimelineRequest{Op: api.TimelineRewind, Rewind: &api.RewindRequest{To: first.ID}})
		require.NoError(t, err)
	}
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.LessOrEqual(t, len(all), maxOwn+2)
	_, err = w.l.Restore(t.Context(), last.Restored.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, fmt.Sprint(maxOwn+19), w.read("out/a"))
	_, err = w.l.Restore(t.Context(), user.Before, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, "only here", w.read("out/a"))
}

// TestARestoreThatIsTooLateChangesNothing: the error is TIMEOUT.
func TestARestoreThatIsTooLateChangesNothing(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "1")
	first, _ := w.checkpoint()
	w.put("a", "2")
	ctx, cancel := context.WithTimeout(t.Context(), undoShare) // nothing is left for it
	defer cancel()
	_, err := w.l.Restore(ctx, first.ID, api.SnapshotRestoreRequest{})
	require.Equal(t, api.CodeTimeout, api.CodeOf(err), "%v", err)
	require.ErrorContains(t, err, "1 path that differ")
	require.Equal(t, "2", w.read("a"))
}
