package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNothingThatAnUnderMountsIsSeenOutside: systemd makes the mounts of a host shared, and what
// is mounted in a copy of one appears on the host unless the copy is made private.
func TestNothingThatAnUnderMountsIsSeenOutside(t *testing.T) {
	if os.Getenv("POLIS_TEST_UNDER") == "" {
		if os.Geteuid() != 0 {
			if os.Getenv("CI") == "true" {
				t.Fatal("must be root in CI")
			}
			t.Skip("needs root")
		}
		// A process of its own: its threads share a mount namespace that is the test's.
		cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "--propagation", "private", os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), "POLIS_TEST_UNDER="+t.TempDir())
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS")
		return
	}
	runtime.LockOSThread() // so that no other goroutine changes the namespace of this thread
	host := os.Getenv("POLIS_TEST_UNDER")
	require.NoError(t, unix.Mount("tmpfs", host, "tmpfs", 0, ""))
	require.NoError(t, unix.Mount("", host, "", unix.MS_SHARED, ""))
	parent := filepath.Join(host, "worktrees")
	for _, name := range []string{"a", "b"} {
		require.NoError(t, os.MkdirAll(filepath.Join(parent, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(parent, name, "file"), []byte(name), 0o600))
	}
	root, err := os.Open(filepath.Join(parent, "a"))
	require.NoError(t, err)
	defer root.Close()
	before := mountinfoOf(t)
	for what, u := range map[string]*Under{
		"the directory itself": {Parent: parent, Name: "a"},
		"an open directory":    {Parent: parent, Name: "a", Root: root},
	} {
		enter, done, err := u.prepare(t.Context(), 0)
		require.NoError(t, err, what)
		var names []string
		entered := make(chan error, 1)
		go func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			if err := enter(); err != nil {
				entered <- err
				return
			}
			// What the command mounts there stays its own, too.
			if err := unix.Mount("tmpfs", filepath.Join(parent, "a"), "tmpfs", 0, ""); err != nil {
				entered <- err
				return
			}
			entries, err := os.ReadDir(parent)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			entered <- err
		}()
		require.NoError(t, <-entered, what)
		done()
		require.Equal(t, []string{"a"}, names, "%s: the command sees one directory", what)
		require.Equal(t, before, mountinfoOf(t), "%s: outside nothing is mounted", what)
		require.FileExists(t, filepath.Join(parent, "b", "file"), what)
	}
}

// mountinfoOf is the mount table of the calling thread, apart from the numbers.
func mountinfoOf(t *testing.T) (out []string) {
	b, err := os.ReadFile("/proc/thread-self/mountinfo")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		out = append(out, f[4]+" "+f[len(f)-3])
	}
	return out
}
