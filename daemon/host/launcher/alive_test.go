package launcher

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// Right after its start a program's arguments are not yet in place; it must not be
// taken for dead then.
func TestAProgramIsAliveFromItsStartToItsEnd(t *testing.T) {
	dir := t.TempDir()
	f := &Fork{}
	for range 100 {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "read x", filepath.Join(dir, "spec.json"))
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		require.NoError(t, os.WriteFile(filepath.Join(dir, "shim.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
		alive, err := f.Alive(t.Context(), "x", dir)
		require.NoError(t, err)
		require.True(t, alive)
		require.NoError(t, in.Close())
		require.Error(t, cmd.Wait(), "read has nothing to read")
		alive, err = f.Alive(t.Context(), "x", dir)
		require.NoError(t, err)
		require.False(t, alive)
	}
}

// A zombie is not a shim.
func TestAProgramThatEndedAndWasNotWaitedForIsDead(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "sh", "-c", "exit 0", filepath.Join(dir, "spec.json"))
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { require.NoError(t, cmd.Wait()) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shim.pid"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o600))
	require.Eventually(t, func() bool {
		alive, err := (&Fork{}).Alive(t.Context(), "x", dir)
		return err == nil && !alive
	}, 10e9, 1e6)
}
