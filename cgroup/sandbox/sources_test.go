//go:build seccomp

package sandbox

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// openPath opens a source as a caller that has checked it does.
func openPath(t testing.TB, path string) *os.File {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	f := os.NewFile(uintptr(fd), path)
	t.Cleanup(func() { f.Close() })
	return f
}

// exchanging exchanges two names as fast as possible until the test ends.
func exchanging(t testing.TB, a, b string) {
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-done:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	t.Cleanup(func() { close(done); <-stopped })
}

// TestAnOpenSourceIsMountedWhateverItsPathLeadsTo: an owner exchanges the sources, and directories above them, for
// links to files of another user while sandboxes are made.
func TestAnOpenSourceIsMountedWhateverItsPathLeadsTo(t *testing.T) {
	cfg := testConfig(t)
	dir := t.TempDir()
	for _, who := range []string{"mine", "theirs"} {
		d := filepath.Join(dir, who, "above", "source")
		require.NoError(t, os.MkdirAll(d, 0o755))
		require.NoError(t, os.Chmod(d, 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(d, "who"), []byte(who), 0o644))
	}
	above := filepath.Join(dir, "mine", "above")
	source, file := filepath.Join(above, "source"), filepath.Join(above, "source", "who")
	opened, openedFile := openPath(t, source), openPath(t, file)
	link := filepath.Join(dir, "link")
	require.NoError(t, os.Symlink(filepath.Join(dir, "theirs", "above"), link))
	cfg.HomeDir, cfg.HomeOpen, cfg.ScratchDir, cfg.ScratchOpen = source, opened, source, opened
	cfg.Mounts = []Mount{{Source: source, Dest: "/w", Open: opened}, {Source: file, Dest: "/f", Open: openedFile, ReadOnly: true},
		{Source: file, Dest: "/home/agent/point", Open: openedFile, ReadOnly: true}}
	exchanging(t, above, link)
	for range 5 {
		s, err := Create(t.Context(), cfg)
		require.NoError(t, err)
		require.Equal(t, "minemineminemine"+"mine", sh(t, s, "cat /w/who /f /home/agent/who /var/tmp/who /home/agent/point; : >/w/written"))
		_, code := run(t, s, "/bin/sh", "-c", "echo x >/f")
		require.NotZero(t, code, "it is read-only")
		require.NoError(t, s.Destroy(context.Background()))
		requireGone(t, cfg)
	}
	require.NoFileExists(t, filepath.Join(dir, "theirs", "above", "source", "written"))
	require.NoFileExists(t, filepath.Join(dir, "theirs", "above", "source", "point"))
}

// TestTheMountsBelowAnOpenSourceComeWithIt: those that are there when the sandbox is made; the host sees none of the
// sandbox's own, and no thread stays in another namespace.
func TestTheMountsBelowAnOpenSourceComeWithIt(t *testing.T) {
	cfg := testConfig(t)
	source := filepath.Join(t.TempDir(), "source")
	point := filepath.Join(source, "point")
	require.NoError(t, os.MkdirAll(point, 0o755))
	require.NoError(t, unix.Mount("tmpfs", point, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"))
	defer func() { require.NoError(t, unix.Unmount(point, unix.MNT_DETACH)) }()
	require.NoError(t, os.WriteFile(filepath.Join(point, "file"), []byte("below"), 0o644))
	cfg.Mounts = []Mount{{Source: source, Dest: "/w", Open: openPath(t, source)}}
	// Other tests mount at the same time.
	own := func() (lines []string) {
		all, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		for line := range strings.Lines(string(all)) {
			if strings.Contains(line, source) || strings.Contains(line, cfg.StateDir) || strings.Contains(line, cfg.RootfsDir) {
				lines = append(lines, line)
			}
		}
		return lines
	}
	before := own()
	require.Len(t, before, 1)
	s, err := Create(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, "below", sh(t, s, "cat /w/point/file"))
	require.NotContains(t, sh(t, s, "cat /proc/self/mountinfo"), stageDir("", cfg.ID), "the stage is not in the sandbox")
	require.NoDirExists(t, stageDir(cfg.StateDir, cfg.ID))
	require.Equal(t, before, own())
	require.NoError(t, s.Destroy(context.Background()))
	require.NoError(t, unix.Unmount(point, 0), "nothing holds the source's mounts")
	require.NoError(t, unix.Mount("tmpfs", point, "tmpfs", 0, ""))
	host, err := os.Readlink("/proc/self/ns/mnt")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		tasks, err := os.ReadDir("/proc/self/task")
		require.NoError(t, err)
		return !slices.ContainsFunc(tasks, func(task os.DirEntry) bool {
			ns, err := os.Readlink(filepath.Join("/proc/self/task", task.Name(), "ns/mnt"))
			return err == nil && ns != host
		})
	}, 10*time.Second, 10*time.Millisecond)
}

// TestAClosedSourceFailsTheSandbox, and leaves nothing.
func TestAClosedSourceFailsTheSandbox(t *testing.T) {
	cfg := testConfig(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	cfg.Mounts = []Mount{{Source: cfg.HomeDir, Dest: "/w", Open: r}}
	_, err = Create(t.Context(), cfg)
	require.ErrorIs(t, err, ErrNamespace)
	requireGone(t, cfg)
	require.NoDirExists(t, stageDir(cfg.StateDir, cfg.ID))
}
