package timeline

import (
	"context"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// receipts collects what is recorded.
type receipts struct {
	mu  sync.Mutex
	all []api.Event
}

func (r *receipts) put(e api.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

// TestEachCheckpointHasAReceipt with its id, its reason and the hashes of its state, in order. What is not kept, and what is
// published as an event, has none.
func TestEachCheckpointHasAReceipt(t *testing.T) {
	w, got := start(t), &receipts{}
	w.h.set = changed.New()
	w.l.Receipt = got.put
	w.put("a", "one")
	first, _ := w.checkpoint()
	_, made := w.checkpoint()
	require.False(t, made)
	w.put("a", "two")
	second, _, err := w.l.Checkpoint(t.Context(), "a", BeforeTask(api.Task{ID: "a.7"}))
	require.NoError(t, err)
	w.create("")
	_, err = w.l.Restore(t.Context(), first.ID, api.SnapshotRestoreRequest{})
	require.NoError(t, err)
	want := map[string]api.Snapshot{}
	lists := map[string][2]string{}
	for _, s := range []api.Snapshot{first, second} {
		want[s.ID], err = w.l.Describe(t.Context(), s.ID)
		require.NoError(t, err)
		list, delta, ok, err := w.l.Lists(t.Context(), s.ID)
		require.NoError(t, err)
		require.True(t, ok)
		lists[s.ID] = [2]string{list, delta}
	}
	require.NoError(t, w.l.Close()) // after it each is recorded
	require.Len(t, got.all, 2)
	for i, s := range []api.Snapshot{first, second} {
		e := got.all[i]
		require.Equal(t, []any{api.ReceiptCheckpoint, "a"}, []any{e.Type, e.Agent})
		require.Equal(t, []any{s.ID, "ws", s.Why, want[s.ID].Hash, want[s.ID].Metadata, lists[s.ID][0]},
			[]any{e.Data["snapshot"], e.Data["workspace"], e.Data["why"], e.Data["hash"], e.Data["metadata_hash"], e.Data["list"]})
	}
	require.Equal(t, lists[second.ID][1], got.all[1].Data["delta"])
	require.Equal(t, 7, got.all[1].Data["task"])
}

// TestReceiptsDoNotWaitForHashes: with too many that wait, and with a damaged list, a receipt has none.
func TestReceiptsDoNotWaitForHashes(t *testing.T) {
	w, got := start(t), &receipts{}
	w.h.set = changed.New()
	w.l.Receipt = got.put
	w.l.mu.Lock()
	for range maxReceipts {
		w.l.receipts = append(w.l.receipts, record{Snapshot: api.Snapshot{ID: "waits", Hash: "known"}})
	}
	w.l.record(record{Snapshot: api.Snapshot{ID: "late", Manifest: "list"}})
	w.l.receipts = []record{}
	w.l.record(record{Snapshot: api.Snapshot{ID: "damaged", Manifest: "none"}})
	w.l.mu.Unlock()
	w.l.recorded.Wait()
	require.Len(t, got.all, 2)
	for i, id := range []string{"late", "damaged"} {
		require.Equal(t, id, got.all[i].Data["snapshot"])
		require.NotContains(t, got.all[i].Data, "hash")
	}
}

// TestACrashLeavesNoCheckpointWithoutAReceipt: what was not durable when polisd was killed is recorded by the next one,
// in order, with its hashes, and what never came to be is not.
func TestACrashLeavesNoCheckpointWithoutAReceipt(t *testing.T) {
	w := start(t)
	w.h.set = changed.New()
	w.l.Receipt = func(api.Event) {} // lost with the process
	durable := make(chan struct{})
	w.l.Settle = func(context.Context) { <-durable }
	w.put("a", "one")
	first, _ := w.checkpoint()
	w.put("a", "two")
	second, _ := w.checkpoint()
	require.NoError(t, w.l.expect("s0123456789"))
	killed := w.l
	defer func() {
		close(durable)
		require.NoError(t, killed.Close())
		require.Empty(t, names(t, killed.unrecorded()), "nothing is recorded a second time")
	}()

	got := &receipts{}
	w.open(w.l.Dir)
	w.l.Receipt = got.put
	_, err := w.l.Resume(t.Context(), func(string) bool { return true })
	require.NoError(t, err)
	w.l.recorded.Wait()
	require.Len(t, got.all, 2)
	for i, s := range []api.Snapshot{first, second} {
		require.Equal(t, s.ID, got.all[i].Data["snapshot"])
		want, err := w.l.Describe(t.Context(), s.ID)
		require.NoError(t, err)
		require.Equal(t, want.Hash, got.all[i].Data["hash"])
	}
	require.Empty(t, names(t, w.l.unrecorded()))
}

func names(t *testing.T, dir string) (out []string) {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}
