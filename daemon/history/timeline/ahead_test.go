package timeline

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// many makes a world with more files than are read while an agent is still.
func many(t *testing.T) *world {
	w := start(t)
	w.h.set = changed.New()
	w.limits = Limits{AgentBytes: 1 << 30, StoreBytes: 1 << 30, Keep: 100}
	for d := range 25 {
		dir := filepath.Join(w.h.dir, fmt.Sprint("d", d))
		require.NoError(t, os.Mkdir(dir, 0o755))
		for i := range 100 {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), fmt.Append(nil, i%50), 0o644))
		}
	}
	return w
}

func (w *world) beforeTask() (api.Snapshot, error) {
	s, _, err := w.l.Checkpoint(w.Context(), "a", BeforeTask(api.Task{ID: "a.1"}))
	return s, err
}

func (w *world) prepare() bool {
	read, err := w.l.Prepare(w.Context(), "a")
	require.NoError(w, err)
	return read
}

func TestALargeTreeThatWasReadAheadHasACheckpointBeforeItsFirstTask(t *testing.T) {
	w := many(t)
	_, err := w.beforeTask()
	require.ErrorIs(t, err, ErrLarge)
	require.True(t, w.prepare())
	w.put("top", "made since")
	all, err := w.l.List(t.Context(), "a")
	require.NoError(t, err)
	require.Empty(t, all, "what is read ahead is the state of no moment")
	require.Empty(t, w.events)
	require.False(t, w.prepare(), "the next checkpoint need not read it")
	s, err := w.beforeTask()
	require.NoError(t, err)
	require.Equal(t, []string{"top"}, s.Changed)
	require.Len(t, w.l.records, 1)
	d, err := w.l.Describe(t.Context(), s.ID)
	require.NoError(t, err)
	require.Equal(t, 2501, d.Files)

	w.h.set = changed.New() // another shim
	_, err = w.beforeTask()
	require.ErrorIs(t, err, ErrLarge)
	require.True(t, w.prepare())
	s, err = w.beforeTask()
	require.NoError(t, err)
	require.NoError(t, w.l.Collect(t.Context()))
	v, err := w.l.Verify(t.Context(), s.ID)
	require.NoError(t, err)
	require.True(t, v.Intact, v.Damaged)
}

func TestWhatNeedsNoReadingAheadIsNotRead(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.put("a", "one")
	require.False(t, w.prepare(), "the tree is small")
	require.Empty(t, w.l.records)
	w.h.set = nil
	require.False(t, w.prepare(), "nothing would tell what changes after it")
	require.Zero(t, w.objects())
}

// TestAReadingAheadLetsOthersHaveTheStore: each time that a part of it is stored, a snapshot of another agent can be made, what
// nothing needs is collected, and neither damages the other.
func TestAReadingAheadLetsOthersHaveTheStore(t *testing.T) {
	w := many(t)
	done := make(chan error, 1)
	started := make(chan struct{})
	release := make(chan struct{})
	n := 0
	w.h.meet = func() {
		if n++; n == 2 { // the first only lists it
			close(started)
			<-release
		}
	}
	go func() {
		_, err := w.l.Prepare(t.Context(), "a")
		done <- err
	}()
	<-started
	// It has the store until a part of it is stored.
	ctx, cancel := context.WithCancel(t.Context())
	collected := make(chan error, 1)
	go func() { collected <- w.l.Collect(ctx) }()
	_, err := w.beforeTask()
	require.ErrorIs(t, err, ErrLarge, "and the cut of the one that reads is not lost")
	close(release)
	require.NoError(t, <-collected)
	for err = nil; err == nil; {
		select {
		case err = <-done:
			require.NoError(t, err)
			err = context.Canceled
		default:
			require.NoError(t, w.l.Collect(t.Context()))
		}
	}
	cancel()
	w.h.meet = nil
	s, err := w.beforeTask()
	require.NoError(t, err)
	v, err := w.l.Verify(t.Context(), s.ID)
	require.NoError(t, err)
	require.True(t, v.Intact, v.Damaged)
	require.Equal(t, 50, v.Objects)
}

func TestAReadingAheadThatIsCancelledLeavesNothing(t *testing.T) {
	w := many(t)
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	w.h.meet = func() {
		if n++; n == 2 {
			cancel()
		}
	}
	_, err := w.l.Prepare(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	require.Empty(t, w.l.records)
	require.Empty(t, w.l.ahead)
	w.h.meet = nil
	require.NoError(t, w.l.Collect(t.Context()))
	require.Zero(t, w.objects())
	left, err := os.ReadDir(filepath.Join(w.l.Dir, "stage"))
	require.NoError(t, err)
	require.Empty(t, left)
	require.True(t, w.prepare())
}

// TestAReadingAheadFindsAFullStore: it ends, and nothing of it remains in the way.
func TestAReadingAheadFindsAFullStore(t *testing.T) {
	w := many(t)
	w.limits.StoreBytes = 40
	_, err := w.l.Prepare(t.Context(), "a")
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	require.Empty(t, w.l.ahead)
	w.limits.StoreBytes = 1 << 30
	require.True(t, w.prepare())
	_, err = w.beforeTask()
	require.NoError(t, err)
}
