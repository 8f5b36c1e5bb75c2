package launcher

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

// TestAShimWithoutItsFileIsFound, and nothing that only looks like it is.
func TestAShimWithoutItsFileIsFound(t *testing.T) {
	need.Root(t)
	agents := t.TempDir()
	dir := filepath.Join(agents, "alice")
	require.NoError(t, os.Mkdir(dir, 0o755))
	f := &Fork{Shim: program(t, "while :; do sleep 600 & wait; done\n")}
	require.NoError(t, f.Start(t.Context(), "alice", filepath.Join(dir, "spec.json")))
	t.Cleanup(func() { _ = f.Stop(t.Context(), "alice", dir, time.Millisecond) }) //nolint:errcheck // it has ended
	want, err := f.pid(dir)
	require.NoError(t, err)
	require.NotZero(t, want)
	for _, damage := range []func() error{
		func() error { return os.Remove(filepath.Join(dir, "shim.pid")) },
		func() error { return os.WriteFile(filepath.Join(dir, "shim.pid"), nil, 0o600) },
		func() error { return os.WriteFile(filepath.Join(dir, "shim.pid"), []byte("x"), 0o600) },
		func() error { return os.RemoveAll(dir) },
	} {
		require.NoError(t, damage())
		f.at = time.Time{}
		got, err := f.pid(dir)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	names, err := f.Names(agents)
	require.NoError(t, err)
	require.Equal(t, []string{"alice"}, names)
	names, err = f.Names(filepath.Dir(agents))
	require.NoError(t, err)
	require.Empty(t, names, "of this directory only")
	for _, other := range []string{filepath.Join(agents, "alic"), filepath.Join(agents, "alice2"), agents} {
		got, err := f.pid(other)
		require.NoError(t, err)
		require.Zero(t, got, other)
	}
	require.NoError(t, f.Stop(t.Context(), "alice", dir, 30*time.Second))
	alive, err := f.Alive(t.Context(), "alice", dir)
	require.NoError(t, err)
	require.False(t, alive)
}
