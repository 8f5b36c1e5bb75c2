package asuser

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

func TestTheUserReachesNoMoreThanTheUserDoes(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	for name, uid := range map[string]int{"mine": 4321, "theirs": 4322, "roots": 0} {
		p := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(p, 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(p, "file"), nil, 0o600))
		require.NoError(t, os.Chown(filepath.Join(p, "file"), uid, uid))
		require.NoError(t, os.Chown(p, uid, uid))
	}
	// A file of root's group, which root's daemon is in.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "group"), nil, 0o040))
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			assert.NoError(t, Do(4321, 4321, func() error {
				for name, want := range map[string]error{"mine/file": nil, "theirs/file": os.ErrPermission, "roots/file": os.ErrPermission, "group": os.ErrPermission} {
					_, err := os.ReadFile(filepath.Join(dir, name))
					assert.ErrorIs(t, err, want, name)
				}
				assert.ErrorIs(t, os.Remove(filepath.Join(dir, "theirs/file")), os.ErrPermission)
				return nil
			}))
		})
		_, err := os.ReadFile(filepath.Join(dir, "theirs/file"))
		require.NoError(t, err, "root stays root")
	}
	wait.Wait()
	require.NoError(t, Do(4321, 4322, func() error { return os.WriteFile(filepath.Join(dir, "mine/new"), nil, 0o644) }))
	fi, err := os.Stat(filepath.Join(dir, "mine/new"))
	require.NoError(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	require.Equal(t, []uint32{4321, 4322}, []uint32{st.Uid, st.Gid})
	require.ErrorIs(t, Do(4321, 4321, func() error { return os.ErrClosed }), os.ErrClosed)
	require.ErrorContains(t, Do(4321, 4321, func() error { runtime.Goexit(); return nil }), "did not return")
}
