package timeline

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// TestARewindReadsAWholeListOnlyIfItMust: not if the state now and the one before are changes to one list.
func TestARewindReadsAWholeListOnlyIfItMust(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "one")
	w.put("d/b", "two")
	w.checkpoint()
	w.put("a", "ONE")
	second, _ := w.checkpoint()
	w.put("a", "three")
	w.put("new", "file")
	var r restorer
	restore := func() api.SnapshotRestored {
		rec, g, err := w.l.goal(t.Context(), second.ID)
		require.NoError(t, err)
		r = restorer{t: w.l, id: second.ID, goal: g}
		var out api.SnapshotRestored
		require.NoError(t, w.h.Hold(t.Context(), "a", func(ctx context.Context, still Still) (err error) {
			out, err = r.held(ctx, rec, still)
			return err
		}))
		return out
	}
	got := restore()
	require.Equal(t, []string{"new", "a"}, got.Paths)
	require.Nil(t, r.goal.all)
	require.Equal(t, []string{"ONE", "-", "two"}, []string{w.read("a"), w.read("new"), w.read("d/b")})

	w.put("a", "four")
	w.h.set = changed.New() // of another shim: the list is stored again
	w.checkpoint()
	require.Equal(t, []string{"a"}, restore().Paths)
	require.NotNil(t, r.goal.all)
	require.Equal(t, "ONE", w.read("a"))
}
