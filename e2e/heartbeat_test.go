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

// frozen freezes a process, which then hangs without having been stopped by a signal. It returns
// the function that thaws it.
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

// noticed waits until polisd logs that a shim does not answer.
func (d *daemon) noticed(agent string) {
	d.t.Helper()
	d.eventually("polisd notices", func() bool {
		return strings.Contains(readFile(d.path("polisd.log")), `msg="shim does not answer" agent=`+agent)
	})
}

// TestAShimThatHangsIsNoticedWhenARequestWaits: an idle shim hangs, a process reads its worktree,
// and polisd detects it within five seconds. If the shim continues in time, it survives and the
// reader gets an answer.
func TestAShimThatHangsIsNoticedWhenARequestWaits(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	alice, bob := d.add("alice"), d.add("bob")
	pid := alice.ShimPID
	require.NotZero(t, pid)
	thaw := frozen(t, pid)
	read := make(chan error, 1)
	began := time.Now()
	go func() {
		_, err := os.ReadFile(d.path("ws", ".polis", "worktrees", "alice", "main.txt"))
		read <- err
	}()
	d.noticed("alice")
	took := time.Since(began)
	t.Logf("noticed after %s", took) // five seconds, on a machine without load
	require.Less(t, took, 15*time.Second, "the request that waits was seen, not only that a heartbeat was missing")
	require.NotContains(t, readFile(d.path("polisd.log")), `msg="shim does not answer" agent=`+bob.Name)
	thaw()
	require.NoError(t, <-read)
	d.sh("alice", "echo x > y.txt")
	a, ok := d.agent("alice")
	require.True(t, ok)
	require.Equal(t, pid, a.ShimPID)
}

// TestAShimThatHangsWhileIdleIsNoticed: there is no request. polisd misses the next heartbeat.
func TestAShimThatHangsWhileIdleIsNoticed(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	alice := d.add("alice")
	thaw := frozen(t, alice.ShimPID)
	d.noticed("alice")
	thaw()
	d.sh("alice", "echo x > y.txt")
	a, ok := d.agent("alice")
	require.True(t, ok)
	require.Equal(t, alice.ShimPID, a.ShimPID)
}
