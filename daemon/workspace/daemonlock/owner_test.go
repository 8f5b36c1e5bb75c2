package daemonlock

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func me() Owner { return Owner{PID: os.Getpid(), RunDir: "/run/a b\n", Socket: "/run/a b/polisd.sock"} }

// TestALivingOwnerIsNamed, and the lock of one that has ended is free.
func TestALivingOwnerIsNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	mine, err := Hold(t.Context(), path, me())
	require.NoError(t, err)
	_, err = Hold(t.Context(), path, me())
	var held *HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, me(), held.Owner)
	require.Contains(t, err.Error(), "/run/a b")
	require.NoError(t, mine.Release())
	again, err := Hold(t.Context(), path, me())
	require.NoError(t, err)
	require.NoError(t, again.Remove())
	require.NoFileExists(t, path)
}

// TestALockOfADeadDaemonIsWaitedFor and one of a living daemon is not.
func TestALockOfADeadDaemonIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	mine, err := Hold(t.Context(), path, me())
	require.NoError(t, err)
	gone := exec.CommandContext(t.Context(), "true")
	require.NoError(t, gone.Run())
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", gone.Process.Pid), 0o600))
	time.AfterFunc(100*time.Millisecond, func() { _ = mine.Release() }) //nolint:errcheck // the lock goes with it
	again, err := Hold(t.Context(), path, me())
	require.NoError(t, err)
	require.NoError(t, again.Release())
}

// TestALockOnARemovedFileDoesNotCount: a process that opened the file before its owner removed it
// must not believe to be the owner, beside the one that made a new file.
func TestALockOnARemovedFileDoesNotCount(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for range 50 {
		first, err := Hold(t.Context(), path, me())
		require.NoError(t, err)
		got := make(chan *Lock, 2)
		for range 2 {
			go func() {
				for t.Context().Err() == nil {
					if l, err := Hold(t.Context(), path, me()); err == nil {
						got <- l
						return
					}
				}
			}()
		}
		require.NoError(t, first.Remove())
		one := <-got
		fi, err := one.f.Stat()
		require.NoError(t, err)
		now, err := os.Lstat(path)
		require.NoError(t, err)
		require.True(t, os.SameFile(fi, now))
		select {
		case <-got:
			t.Fatal("two owners at once")
		default:
		}
		require.NoError(t, one.Remove())
		require.NoError(t, (<-got).Remove())
	}
}

func TestALockFileThatIsNoFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(dir, "link")))
	require.NoError(t, os.Mkdir(filepath.Join(dir, "dir"), 0o755))
	for _, name := range []string{"link", "dir"} {
		_, err := Hold(t.Context(), filepath.Join(dir, name), me())
		require.Error(t, err, name)
	}
}
