package timeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/fusefs/changed"
	"polis/internal/need"
)

// TestAFullDiskOfTheStore: no checkpoint is made, which is reported once; what there was is intact; a rewind, whose state
// before could not be saved, changes nothing; and with room again checkpoints are made, also after a restart.
func TestAFullDiskOfTheStore(t *testing.T) {
	need.Root(t)
	w := start(t)
	w.h.set = changed.New()
	disk := t.TempDir()
	require.NoError(t, unix.Mount("snapshots", disk, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m,mode=0700"))
	t.Cleanup(func() {
		require.NoError(t, w.l.Close())
		require.NoError(t, unix.Unmount(disk, 0))
	})
	w.open(filepath.Join(disk, "snapshots"))
	got := &receipts{}
	w.l.Receipt = got.put
	w.put("a", "one")
	first, made := w.checkpoint()
	require.True(t, made)
	filler := filepath.Join(disk, "filler")
	fill := func() {
		err := os.WriteFile(filler, make([]byte, 2<<20), 0o600)
		require.ErrorIs(t, err, syscall.ENOSPC)
	}
	for _, size := range []int{10_000, 100_000} { // the first may fill the last page of the disk, the second is cut in the middle
		fill()
		w.put("a", strings.Repeat("x", size))
		for range 2 {
			_, made, err := w.l.Checkpoint(t.Context(), "a", Mark{Why: api.SnapshotByTime})
			require.False(t, made)
			require.Equal(t, api.CodeStateNotSaved, api.CodeOf(err), err)
			require.ErrorContains(t, err, "no space left")
		}
		_, err := w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{})
		require.Equal(t, api.CodeStateNotSaved, api.CodeOf(err), err)
		require.Len(t, w.read("a"), size, "nothing was changed")
		require.Len(t, w.l.Faults(func(string) bool { return true }), 1)
		v, err := w.l.Verify(t.Context(), first.ID)
		require.NoError(t, err)
		require.True(t, v.Intact, v.Damaged)

		require.NoError(t, os.Remove(filler))
		s, made := w.checkpoint()
		require.True(t, made)
		require.Empty(t, s.Whole, "what changed while the disk was full is known")
		require.Equal(t, []string{"a"}, s.Changed)
		require.Empty(t, w.l.Faults(func(string) bool { return true }))
	}
	var codes []api.Code
	for _, e := range w.events {
		if e.Type == api.EventCheckpoints {
			codes = append(codes, e.Code)
		}
	}
	require.Equal(t, []api.Code{api.CodeStateNotSaved, "", api.CodeStateNotSaved, ""}, codes)
	left, err := os.ReadDir(filepath.Join(w.l.Dir, "stage"))
	require.NoError(t, err)
	require.Empty(t, left)
	records, err := os.ReadDir(w.l.recordsDir())
	require.NoError(t, err)
	require.Len(t, records, 3)

	fill()
	require.NoError(t, w.l.Close())
	w.open(w.l.Dir)
	list, err := w.l.List(t.Context(), "a")
	require.NoError(t, err, "they can be read while the disk is full")
	require.Len(t, list, 3)
	require.NoError(t, os.Remove(filler))
	_, err = w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	require.Equal(t, "one", w.read("a"))
	for _, s := range list {
		v, err := w.l.Verify(t.Context(), s.ID)
		require.NoError(t, err)
		require.True(t, v.Intact, v.Damaged)
	}
}

// TestWhatIsNoFaultOfTheStoreIsNotReported.
func TestWhatIsNoFaultOfTheStoreIsNotReported(t *testing.T) {
	w := start(t)
	for _, err := range []error{nil, ErrLarge, w.l.unsaved("a", ErrLarge), errors.New("other"), api.Errorf(api.CodeAgentNotFound, "gone"), api.Errorf(api.CodeTimeout, "busy")} {
		w.l.noteFault("a", err)
	}
	require.Empty(t, w.events)
	w.l.noteFault("a", api.Errorf(api.CodeQuota, "full"))
	require.Len(t, w.events, 1)
	require.Empty(t, w.l.Faults(func(string) bool { return false }))
	require.Empty(t, w.l.faults)
}
