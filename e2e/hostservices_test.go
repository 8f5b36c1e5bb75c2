package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// groupsBelow are the directories of a control group in all hierarchies, the innermost first.
func groupsBelow(path string) []string {
	var dirs []string
	for _, top := range append(glob("/sys/fs/cgroup/*"+path), glob("/sys/fs/cgroup"+path)...) {
		_ = filepath.WalkDir(top, func(p string, e os.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				dirs = append(dirs, p)
			}
			return nil
		})
	}
	slices.SortFunc(dirs, func(a, b string) int { return len(b) - len(a) })
	return dirs
}

// TestEmptyControlGroupsThatWereRemovedAreMadeAgain: a service that cleans up removes the ones that have no process.
func TestEmptyControlGroupsThatWereRemovedAreMadeAgain(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	a := d.add("alice", "--memory", "200")
	all, _, _ := strings.Cut(strings.TrimPrefix(a.CgroupPath, "/"), "/")
	require.NotEmpty(t, all)
	clean := func() (removed int) {
		for _, dir := range groupsBelow("/" + all) {
			if unix.Rmdir(dir) == nil {
				removed++
			}
		}
		return removed
	}
	limited := func() {
		t.Helper()
		for _, f := range []string{"/sys/fs/cgroup/memory" + a.CgroupPath + "/memory.limit_in_bytes", "/sys/fs/cgroup" + a.CgroupPath + "/memory.max"} {
			if text := strings.TrimSpace(readFile(f)); text != "" {
				require.Equal(t, fmt.Sprint(200<<20), text, f)
				return
			}
		}
		t.Fatal("no memory limit")
	}
	limited()
	d.must("agents", "diff", "alice") // polisd's git has a group of its own
	clean()
	d.sh("alice", "echo changed > main.txt; git add main.txt; "+ident+"git commit -qm changed")
	require.Contains(t, d.must("agents", "diff", "alice"), "changed")
	limited()
	d.must("agents", "stop", "alice")
	clean()
	require.Empty(t, groupsBelow("/"+all), "none has a process")
	d.must("agents", "start", "alice")
	limited()
	require.Equal(t, "changed\n", d.sh("alice", "cat main.txt"))
	d.must("merge", "alice")
}

// TestAProcessThatWasMovedOutOfItsControlGroupEndsWithTheAgent: a script of root's moves processes between groups.
func TestAProcessThatWasMovedOutOfItsControlGroupEndsWithTheAgent(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	a := d.add("alice", "--", "sleep", "54321")
	d.must("agents", "start", "--program", "alice")
	var pid string
	d.eventually("the command runs", func() bool {
		for _, f := range glob("/proc/[0-9]*/cmdline") {
			if readFile(f) == "sleep\x0054321\x00" {
				pid = filepath.Base(filepath.Dir(f))
			}
		}
		return pid != ""
	})
	moved := 0
	for _, dir := range groupsBelow(a.CgroupPath) {
		if slices.Contains(strings.Fields(readFile(filepath.Join(dir, "cgroup.procs"))), pid) {
			root := dir[:strings.Index(dir, a.CgroupPath)]
			require.NoError(t, os.WriteFile(filepath.Join(root, "cgroup.procs"), []byte(pid), 0o644))
			moved++
		}
	}
	require.Positive(t, moved)
	d.sh("alice", "true")
	d.must("agents", "stop", "alice")
	require.NoFileExists(t, "/proc/"+pid, "it was in the process namespace of the sandbox")
}

// TestTheOutputLogIsRotatedByOthers: by logrotate, or by an administrator who frees space.
func TestTheOutputLogIsRotatedByOthers(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--", "sh", "-c", "i=0; while sleep 0.2; do i=$((i+1)); echo line $i; done")
	d.must("agents", "start", "--program", "alice")
	log := d.path("ws/.polis/logs/alice/output.log")
	grows := func() {
		t.Helper()
		d.eventually("output in the log", func() bool { return strings.Contains(readFile(log), "line") })
	}
	grows()
	require.NoError(t, os.Rename(log, log+".moved"))
	grows()
	require.NoError(t, os.Remove(log))
	grows()
	require.NoError(t, os.Truncate(log, 0))
	grows()
	require.Contains(t, d.must("agents", "watch", "alice"), "line")
}
