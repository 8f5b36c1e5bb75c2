package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// TestALockOfADeadDaemonIsWaitedFor and one of a living daemon is not.
func TestALockOfADeadDaemonIsWaitedFor(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	mine, err := holdLock(t.Context(), path)
	require.NoError(t, err)
	_, err = holdLock(t.Context(), path)
	require.Equal(t, api.CodeUnavailable, api.CodeOf(err), "the owner lives")

	gone := exec.CommandContext(t.Context(), "true")
	require.NoError(t, gone.Run())
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, "%d\n", gone.Process.Pid), 0o600))
	go func() {
		time.Sleep(100 * time.Millisecond)
		_ = mine.Close() //nolint:errcheck // the lock goes with it
	}()
	again, err := holdLock(t.Context(), path)
	require.NoError(t, err)
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintln(os.Getpid()), string(b))
	require.NoError(t, again.Close())
	f, err := os.Open(path)
	require.NoError(t, err)
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB))
	require.NoError(t, f.Close())
}
