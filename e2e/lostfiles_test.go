package e2e

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAShimThatLostItsFilesIsEndedBeforeAnythingIsDeleted: polisd cannot find the shim by its
// files, and must not delete through its views.
func TestAShimThatLostItsFilesIsEndedBeforeAnythingIsDeleted(t *testing.T) {
	for name, end := range map[string]func(d *daemon){
		"polisd stops": func(d *daemon) { d.stop() },
		"polisd was killed, and another one starts and stops": func(d *daemon) {
			require.Error(d.t, d.signal(syscall.SIGKILL))
			d.start()
			require.Equal(d.t, "two\n", d.sh("alice", "git show HEAD:new.txt"), "it is brought up again")
			d.stop()
		},
		"the shim is dead, too, and its mounts are left": func(d *daemon) {
			require.Error(d.t, d.signal(syscall.SIGKILL))
			a := shimPIDs(d)
			require.Len(d.t, a, 1)
			require.NoError(d.t, syscall.Kill(a[0], syscall.SIGKILL))
			d.eventually("the shim is dead", func() bool { return d.living() == 0 })
			require.NotEmpty(d.t, d.mounts(), "a killed shim leaves its mounts")
			d.start()
			d.stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, options{})
			d.up()
			d.add("alice")
			d.sh("alice", "echo one > new.txt; git add new.txt; "+ident+"git commit -qm one; echo two > new.txt; git add new.txt; "+ident+"git commit -qm two; echo staged > staged.txt; git add staged.txt; echo loose > loose.txt")
			bare := d.path("ws", ".polis", "bare-repo.git")
			tip := git(t, bare, "rev-parse", "refs/heads/agent/alice")
			index := readFile(filepath.Join(bare, "worktrees", "alice", "index"))
			require.NotEmpty(t, index)
			for _, f := range []string{"spec.json", "shim.pid", "shim.sock"} {
				require.NoError(t, os.Remove(d.path("run", "agents", "alice", f)))
			}
			require.Equal(t, 1, d.living())
			end(d)
			require.Empty(t, d.mounts())
			require.Zero(t, d.living())
			require.NoDirExists(t, d.path("run", "agents", "alice"))
			require.Equal(t, tip, git(t, bare, "rev-parse", "refs/heads/agent/alice"))
			require.Equal(t, "ref: refs/heads/agent/alice", strings.TrimSpace(readFile(filepath.Join(bare, "worktrees", "alice", "HEAD"))))
			require.Equal(t, index, readFile(filepath.Join(bare, "worktrees", "alice", "index")))
			tree := d.path("ws", ".polis", "worktrees", "alice")
			require.Equal(t, "two\n", readFile(filepath.Join(tree, "new.txt")))
			require.Equal(t, "loose\n", readFile(filepath.Join(tree, "loose.txt")))
			d.start()
			require.Equal(t, "two\n", d.sh("alice", "git show HEAD:new.txt"))
			require.Contains(t, d.sh("alice", "git status --porcelain"), "A  staged.txt")
		})
	}
}

// shimPIDs returns the process numbers of this test's shims.
func shimPIDs(d *daemon) []int {
	var out []int
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		args := strings.Split(readFile(f), "\x00")
		if len(args) > 2 && strings.HasSuffix(args[0], "polis-shim") && strings.HasPrefix(args[2], d.dir+"/") {
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(f)))
			require.NoError(d.t, err)
			out = append(out, pid)
		}
	}
	return out
}
