package timeline

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/fusefs/changed"
)

// benchTree makes a world with n files of 1 KiB and a first checkpoint.
func benchTree(b *testing.B, n int) *world {
	w := &world{TB: b, h: &host{dir: b.TempDir(), set: changed.New()}, now: time.Unix(1e9, 0), limits: Limits{AgentBytes: 8 << 30, StoreBytes: 16 << 30, Keep: 1 << 20}}
	w.open(filepath.Join(b.TempDir(), "snapshots"))
	text := make([]byte, 1024)
	for i := range n {
		dir := filepath.Join(w.h.dir, fmt.Sprint("d", i/100))
		if i%100 == 0 {
			require.NoError(b, os.Mkdir(dir, 0o755))
		}
		copy(text, fmt.Sprint(i%1000, " of many")) // equal contents are stored once: the files are what counts
		require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), text, 0o644))
	}
	w.checkpoint()
	return w
}

// change writes 10 files as an agent does.
func (w *world) change(round int) {
	for i := range 10 {
		name := fmt.Sprintf("d%d/%d", i%10, i%10*100)
		w.h.set.Add(name, false)
		require.NoError(w, os.WriteFile(filepath.Join(w.h.dir, name), fmt.Append(nil, round, " ", i), 0o644))
	}
}

// BenchmarkCheckpoint is a checkpoint of 10 changed files, to the disk, without the freeze.
func BenchmarkCheckpoint(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := benchTree(b, n)
			round := 0
			for b.Loop() {
				b.StopTimer()
				round++
				w.change(round)
				b.StartTimer()
				s, made := w.checkpoint()
				require.True(b, made)
				require.Empty(b, s.Whole)
			}
		})
	}
}

// BenchmarkRewind brings 10 files back.
func BenchmarkRewind(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			w := benchTree(b, n)
			w.change(1)
			first, _ := w.checkpoint()
			round := 1
			for b.Loop() {
				b.StopTimer()
				round++
				w.change(round)
				b.StartTimer()
				r, err := w.l.Restore(b.Context(), first.ID, api.SnapshotRestoreRequest{})
				require.NoError(b, err)
				require.Equal(b, 10, r.Changed)
			}
		})
	}
}
