package timeline

import (
	"crypto/rand"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// of has the timeline act for an agent with files of its own.
func (w *world) of(agent string, root string) {
	w.h.dir = filepath.Join(root, agent)
	require.NoError(w, os.MkdirAll(w.h.dir, 0o755))
}

// replaceBy gives the agent's file other content of a size.
func (w *world) replaceBy(size int) {
	b := make([]byte, size)
	_, err := rand.Read(b)
	require.NoError(w, err)
	w.write("file", string(b))
}

func (w *world) whys(agent string) map[string]int {
	all, err := w.l.List(w.Context(), agent)
	require.NoError(w, err)
	out := map[string]int{}
	for _, s := range all {
		out[s.Why]++
	}
	return out
}

// TestAFullStoreIsShared: agents that fill it by themselves leave others their checkpoints before tasks, and no agent displaces
// those of another by what it makes itself.
func TestAFullStoreIsShared(t *testing.T) {
	w := start(t)
	root := t.TempDir()
	w.limits = Limits{AgentBytes: 6 << 20, StoreBytes: 8 << 20, Keep: 1000}
	fill := func(agent string, n int) {
		w.of(agent, root)
		for range n {
			w.replaceBy(300 << 10)
			_, made, err := w.l.Checkpoint(t.Context(), agent, Mark{Why: api.SnapshotByAgent})
			require.NoError(t, err)
			require.True(t, made)
		}
	}
	before := func(agent string) error {
		w.of(agent, root)
		w.replaceBy(300 << 10)
		_, made, err := w.l.Checkpoint(t.Context(), agent, BeforeTask(api.Task{ID: agent + ".1"}))
		require.Equal(t, err == nil, made)
		return err
	}
	require.NoError(t, before("x"))
	fill("x", 15)
	fill("y", 20) // the store is full, and y has more than its share
	used, _ := w.l.objects.Used()
	require.Greater(t, used, int64(6<<20))
	require.Equal(t, 1, w.whys("x")[api.SnapshotByTask], "x keeps what was made before its task")
	for range 8 { // its share is a third
		require.NoError(t, before("z"))
	}
	require.Equal(t, 8, w.whys("z")[api.SnapshotByTask])
	require.Equal(t, 1, w.whys("x")[api.SnapshotByTask])
	fill("y", 30)
	require.Equal(t, 8, w.whys("z")[api.SnapshotByTask], "y displaces its own")
	require.Equal(t, 1, w.whys("x")[api.SnapshotByTask])
	require.NotZero(t, w.whys("x")[api.SnapshotByAgent])
	require.Empty(t, w.events, "nobody is without checkpoints")

	// A person's snapshots and rewinds get room, too, and what they are of stays.
	w.of("z", root)
	w.replaceBy(300 << 10)
	_, err := w.l.Create(t.Context(), "z", api.SnapshotRequest{})
	require.NoError(t, err)
	all, err := w.l.List(t.Context(), "z")
	require.NoError(t, err)
	_, err = w.l.Rewind(t.Context(), "z", api.RewindRequest{To: all[0].ID})
	require.NoError(t, err)
	for _, agent := range []string{"x", "y", "z"} {
		list, err := w.l.List(t.Context(), agent)
		require.NoError(t, err)
		for _, s := range list {
			v, err := w.l.Verify(t.Context(), s.ID)
			require.NoError(t, err)
			require.True(t, v.Intact, "%s %v", s.Why, v.Damaged)
		}
	}

	// What the rule does not give is an error with a hint, and an event.
	w.limits.StoreBytes = 100 << 10
	w.events = nil
	err = before("z")
	require.Equal(t, api.CodeQuota, api.CodeOf(err), err)
	require.Contains(t, api.AsError(err).Hint, "snapshots.max_mb")
	require.Len(t, w.events, 1)
	require.Equal(t, api.EventCheckpoints, w.events[0].Type)
}

// TestWhatIsRestoredMakesNoRoom for the state before, although it is the oldest.
func TestWhatIsRestoredMakesNoRoom(t *testing.T) {
	w := start(t)
	w.limits = Limits{AgentBytes: 2 << 20, StoreBytes: 2 << 20, Keep: 1000}
	w.of("x", t.TempDir())
	var made []api.Snapshot
	for range 4 {
		w.replaceBy(400 << 10)
		s, _, err := w.l.Checkpoint(t.Context(), "x", Mark{Why: api.SnapshotByAgent})
		require.NoError(t, err)
		made = append(made, s)
	}
	w.replaceBy(500 << 10)
	_, err := w.l.Rewind(t.Context(), "x", api.RewindRequest{To: made[0].ID})
	require.NoError(t, err)
	require.Len(t, w.read("file"), 400<<10)
	left, err := w.l.List(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, made[0].ID, left[0].ID)
	require.NotEqual(t, made[1].ID, left[1].ID, "the next one has made room")
	require.Empty(t, w.l.pins)
}
