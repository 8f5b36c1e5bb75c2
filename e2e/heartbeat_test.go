package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// frozen freezes a process, as one hangs that no signal has stopped, and returns what
// thaws it.
func frozen(t *testing.T, pid int) (thaw func()) {
	root := "/sys/fs/cgroup"
	for line := range strings.Lines(readFile("/proc/self/mounts")) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
		}
	}
	was := root
	for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/cgroup", pid))) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			was = filepath.Join(root, p)
		}
	}
	dir := filepath.Join(root, fmt.Sprintf("polis-e2e-frozen-%d", os.Getpid()))
	set := func(file, text string) { require.NoError(t, os.WriteFile(file, []byte(text), 0o644)) }
	require.NoError(t, os.Mkdir(dir, 0o755))
	if _, err := os.Stat(filepath.Join(dir, "cgroup.freeze")); err != nil {
		require.NoError(t, os.Remove(dir))
		t.Skip("needs cgroup v2 with a freezer (Linux 5.2)")
	}
	done := false
	thaw = func() {
		if done {
			return
		}
		done = true
		set(filepath.Join(dir, "cgroup.freeze"), "0")
		set(filepath.Join(was, "cgroup.procs"), strconv.Itoa(pid))
		require.Eventually(t, func() bool { return os.Remove(dir) == nil }, patience, 10*time.Millisecond)
	}
	t.Cleanup(thaw)
	set(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(pid))
	set(filepath.Join(dir, "cgroup.freeze"), "1")
	return thaw
}

// TestAShimThatHangsWhileIdleIsNoticed: nobody opens a file or asks it anything, and
// polisd finds that it does not answer. It lives on if it goes on in time.
func TestAShimThatHangsWhileIdleIsNoticed(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	alice, bob := d.add("alice"), d.add("bob")
	pid := alice.ShimPID
	require.NotZero(t, pid)
	thaw := frozen(t, pid)
	d.eventually("polisd notices", func() bool {
		return strings.Contains(readFile(d.path("polisd.log")), `msg="shim does not answer" agent=alice`)
	})
	require.NotContains(t, readFile(d.path("polisd.log")), `msg="shim does not answer" agent=`+bob.Name)
	thaw()
	d.sh("alice", "echo x > y.txt")
	a, ok := d.agent("alice")
	require.True(t, ok)
	require.Equal(t, pid, a.ShimPID)
}
