package upper_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// The paths of a program's calls say which of a file's names it means. A program that reaches the files by a path that
// the view does not know, or cannot resolve, sees the same files.
func TestHardLinksByPathsThatTheViewDoesNotKnow(t *testing.T) {
	ways := map[string]func(t *testing.T, s *stack) string{
		"a symbolic link": func(t *testing.T, s *stack) string {
			to := filepath.Join(ownDir(t), "link")
			require.NoError(t, os.Symlink(s.at, to))
			return to
		},
		"a symbolic link and up again": func(t *testing.T, s *stack) string {
			require.NoError(t, os.MkdirAll(s.in("x/y"), 0o755))
			require.NoError(t, os.Symlink("x/y", s.in("z")))
			return s.at + "/z/../.."
		},
		"a descriptor":    func(t *testing.T, s *stack) string { return fmt.Sprint("/proc/self/fd/", dirFD(t, s.at)) },
		"the root's link": func(t *testing.T, s *stack) string { return "/proc/self/root" + s.at },
		"another mount": func(t *testing.T, s *stack) string {
			to := ownDir(t)
			require.NoError(t, unix.Mount(s.at, to, "", unix.MS_BIND, ""))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(to, 0)) })
			return to
		},
	}
	for name, way := range ways {
		for seed := range uint64(3) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				t.Parallel()
				s := mount(t, map[string]string{"a": "base a", "d/b": "base b"}, func(_ *asked, c *fusefs.Config) { c.AbovePaths = append(c.AbovePaths, "/proc/self/fd/3") })
				plain := ownDir(t)
				at := way(t, s)
				for name, text := range map[string]string{"a2": "base a", "d/b": "base b"} {
					require.NoError(t, os.MkdirAll(filepath.Join(plain, filepath.Dir(name)), 0o755))
					require.NoError(t, os.WriteFile(filepath.Join(plain, name), []byte(text), 0o644))
				}
				require.NoError(t, os.WriteFile(at+"/a2", []byte("base a"), 0o644))
				runtime.LockOSThread() // the kernel repeats a call on its thread
				defer runtime.UnlockOSThread()
				r := rand.New(rand.NewPCG(seed, 2))
				names := []string{"a2", "b", "c", "d/a2", "d/b", "e/a2", "e/c"}
				var log []string
				for i := range 300 {
					from, to, op := names[r.IntN(len(names))], names[r.IntN(len(names))], r.IntN(12)
					log = append(log, fmt.Sprintf("%d: %d %s %s", i, op, from, to))
					want, got := linkStep(plain, op, from, to, i), linkStep(at, op, from, to, i)
					require.Equal(t, want, got, "%s", strings.Join(log[max(0, len(log)-60):], "\n"))
					if i%40 == 0 {
						time.Sleep(10 * time.Millisecond) // the view has used the names by now
					}
				}
			})
		}
	}
}

// ownDir returns an empty directory whose parent has nothing else: linkStep makes names there, too.
func ownDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "own")
	require.NoError(t, os.Mkdir(dir, 0o755))
	return dir
}
