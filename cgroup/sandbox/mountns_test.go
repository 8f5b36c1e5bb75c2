//go:build seccomp

package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAMountIsMadeInASandboxOnly: the host does not have it, no thread stays there, and removing the directory on
// the host removes the mount in every namespace that has it, also while it is in use.
func TestAMountIsMadeInASandboxOnly(t *testing.T) {
	cfg := testConfig(t)
	point := filepath.Join(cfg.RunDir, "made")
	s := create(t, cfg)
	require.NoError(t, os.Mkdir(point, 0o755))
	host, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	require.NoError(t, s.InMounts(func() error {
		if err := unix.Mount("tmpfs", "/run/polis/made", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
			return err
		}
		return os.WriteFile("/run/polis/made/file", []byte("here"), 0o644)
	}))
	require.Equal(t, "here", sh(t, s, "cat /run/polis/made/file"))
	require.NoFileExists(t, filepath.Join(point, "file"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := s.InMounts(func() error { _, err := os.Stat("/run/polis/made/file"); return err }); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return !slices.ContainsFunc(tasks, func(task os.DirEntry) bool {
			ns, err := os.Readlink(filepath.Join("/proc/self/task", task.Name(), "ns/mnt"))
			return err == nil && ns != host
		})
	}, 20*time.Second, 10*time.Millisecond, "no thread stays")
	p, err := s.Start(Process{Args: []string{"/bin/sh", "-c", "cd /run/polis/made; exec sleep 60"}})
	require.NoError(t, err)
	defer p.Signal(unix.SIGKILL) //nolint:errcheck // the sandbox ends
	require.NoError(t, os.Remove(point))
	require.Equal(t, "gone", sh(t, s, "test -e /run/polis/made || echo gone"))
	require.NoError(t, s.Destroy(t.Context()))
	require.ErrorIs(t, s.InMounts(func() error { return nil }), ErrGone)
}
