package cgroup

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeV2 is a group of a pure v2 host whose files are ordinary ones, as cgroup-v2.rst describes
// them.
func fakeV2(t *testing.T, files map[string]string) *Group {
	root := t.TempDir()
	g := &Group{Path: "polis/agent", host: &Host{Mode: V2, hierarchies: []hierarchy{{v2: true, root: root, inner: "/"}}}}
	require.NoError(t, os.MkdirAll(filepath.Join(root, g.Path), 0o755))
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(root, g.Path, name), []byte(text), 0o644))
	}
	return g
}

const eventsV2 = "low 0\nhigh 7\nmax 42\noom 3\noom_kill 2\noom_group_kill 1\n"

func TestMemoryCountersOfV2(t *testing.T) {
	g := fakeV2(t, map[string]string{
		"memory.events":  eventsV2,
		"memory.current": "1000\n",
		"memory.stat":    "anon 600\nfile 400\ninactive_file 100\nactive_file 50\nslab_reclaimable 25\nslab_unreclaimable 9\n",
	})
	kills, err := g.OOMKills()
	require.NoError(t, err)
	require.EqualValues(t, 2, kills, "processes that were killed, not times the limit was hit")
	reclaims, err := g.Reclaims()
	require.NoError(t, err)
	require.EqualValues(t, 42, reclaims, "at the limit of the group, not at memory.high")
	need, err := g.MemoryNeed()
	require.NoError(t, err)
	require.EqualValues(t, 825, need)

	// A group that is gone has had neither.
	require.NoError(t, os.Remove(filepath.Join(g.host.hierarchies[0].root, g.Path, "memory.events")))
	kills, err = g.OOMKills()
	require.NoError(t, err)
	require.Zero(t, kills)
	reclaims, err = g.Reclaims()
	require.NoError(t, err)
	require.Zero(t, reclaims)
}

// Reclaiming is not counted in memory.current at the same moment: the need is never below 0.
func TestMemoryNeedOfV2IsNeverNegative(t *testing.T) {
	g := fakeV2(t, map[string]string{"memory.current": "100\n", "memory.stat": "inactive_file 90\nactive_file 90\nslab_reclaimable 90\n"})
	need, err := g.MemoryNeed()
	require.NoError(t, err)
	require.Zero(t, need)
}

// A change of memory.events without a kill is no report; one with a kill is one, with the count.
func TestKillsOfV2AreReportedByTheirCount(t *testing.T) {
	g := fakeV2(t, map[string]string{"memory.events": eventsV2})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	kills, err := g.WatchOOM(ctx)
	require.NoError(t, err)
	file := filepath.Join(g.host.hierarchies[0].root, g.Path, "memory.events")
	require.NoError(t, os.WriteFile(file, []byte("max 43\noom 3\noom_kill 2\n"), 0o644))
	require.NoError(t, os.WriteFile(file, []byte("max 44\noom 5\noom_kill 4\n"), 0o644))
	select {
	case e, ok := <-kills:
		require.True(t, ok)
		require.EqualValues(t, 4, e.Count)
	case <-ctx.Done():
		t.Fatal("no report of a kill")
	}
	cancel()
	for range kills { //nolint:revive // it is closed when the watch has ended
	}
}

// The soft limit of v2 is memory.high while the watch is open; memory.events announces that it was
// passed.
func TestASoftLimitOfV2IsWatched(t *testing.T) {
	g := fakeV2(t, map[string]string{"memory.events": eventsV2, "memory.high": "max\n"})
	dir := filepath.Join(g.host.hierarchies[0].root, g.Path)
	high := func() string {
		// An ordinary file keeps what a shorter value does not overwrite.
		text, err := os.ReadFile(filepath.Join(dir, "memory.high"))
		require.NoError(t, err)
		return string(text)
	}
	w, err := g.WatchMemory(81920)
	require.NoError(t, err)
	require.Contains(t, high(), "84480", "soft and a little more")
	select {
	case <-w.Passed():
		t.Fatal("nothing was passed")
	default:
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "memory.events"), []byte("low 0\nhigh 8\nmax 42\n"), 0o644))
	select {
	case <-w.Passed():
	case <-time.After(time.Minute):
		t.Fatal("no report")
	}
	require.NoError(t, w.Close())
	require.Contains(t, high(), "max", "nothing slows the group down when it is not watched")

	// Without the file there is no watch: an old kernel, or a root group.
	require.NoError(t, os.Remove(filepath.Join(dir, "memory.high")))
	_, err = g.WatchMemory(81920)
	require.Error(t, err)
	require.NoFileExists(t, filepath.Join(dir, "memory.high"))
}

func TestPressureOfV2(t *testing.T) {
	g := fakeV2(t, map[string]string{
		"memory.pressure": "some avg10=12.50 avg60=3.00 avg300=0.10 total=2500000\nfull avg10=90.00 avg60=0.00 avg300=0.00 total=9000000\n",
		"cpu.pressure":    "some avg10=7.00 avg60=0.00 avg300=0.00 total=3\n",
	})
	stalled, ok := g.MemoryStalled()
	require.True(t, ok)
	require.Equal(t, 2500*time.Millisecond, stalled, "of some process, not of all at once")
	require.Equal(t, &Pressure{CPU: 7, Memory: 12.5}, g.pressure(), "a kernel may lack a file")

	// A kernel that does not measure it.
	_, ok = fakeV2(t, nil).MemoryStalled()
	require.False(t, ok)
	require.Nil(t, fakeV2(t, nil).pressure())
}
