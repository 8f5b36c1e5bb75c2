package launcher

import (
	"context"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAStoppedProcessIsSeenAndContinues(t *testing.T) {
	dir := t.TempDir()
	f := &Fork{Shim: program(t, "exec sleep 600\n")}
	_, err := f.Process(t.Context(), "a", dir)
	require.ErrorIs(t, err, ErrNoProcess)
	require.NoError(t, f.Start(t.Context(), "a", filepath.Join(dir, "spec.json")))
	p, err := f.Process(t.Context(), "a", dir)
	require.NoError(t, err)
	stopped := func(want bool) {
		t.Helper()
		require.Eventually(t, func() bool { got, err := p.Stopped(); return err == nil && got == want }, 30*time.Second, time.Millisecond)
	}
	stopped(false)
	require.NoError(t, syscall.Kill(p.p.pid, syscall.SIGSTOP))
	stopped(true)
	require.NoError(t, p.Continue())
	stopped(false)
	other := Process{process{p.p.pid, p.p.born + 1}}
	require.NoError(t, other.Kill(), "the number is another's: nothing is done")
	require.True(t, p.Alive())
	require.NoError(t, syscall.Kill(p.p.pid, syscall.SIGSTOP))
	require.NoError(t, p.Kill(), "also when it is stopped")
	require.Eventually(t, func() bool { return !p.Alive() }, 30*time.Second, time.Millisecond)
	require.NoError(t, p.Kill(), "a second time")
	_, err = f.Process(t.Context(), "a", dir)
	require.ErrorIs(t, err, ErrNoProcess)
}

// TestAHungFileSystemBlocksNoCaller: the child may block, its caller continues.
func TestAHungFileSystemBlocksNoCaller(t *testing.T) {
	require.NoError(t, Statfs(t.Context(), program(t, "test \"$1\" = --statfs && test -d \"$2\"\n"), t.TempDir()))
	var exit *exec.ExitError
	require.ErrorAs(t, Statfs(t.Context(), program(t, "exit 3\n"), t.TempDir()), &exit)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, Statfs(ctx, program(t, "exec sleep 600\n"), t.TempDir()), context.DeadlineExceeded)
}
