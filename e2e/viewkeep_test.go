package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// What an administrator does to mounts must not open the files of an agent to programs of the host.
func TestAViewThatIsUnmountedOnTheHostIsMountedAgain(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--deny", "secret")
	d.add("bob")
	d.sh("alice", "echo one > f")
	tree := d.path("ws/.polis/worktrees/alice")
	covered := func() bool {
		out, err := exec.Command("findmnt", "-n", "-o", "SOURCE", "-M", tree).Output()
		return err == nil && string(out) == "polis:alice\n"
	}
	require.True(t, covered())
	events := func() int { return len(d.eventsOf(api.EventView)) }
	for i, at := range []string{tree, d.path("run/agents/alice/git"), tree} {
		require.NoError(t, exec.Command("umount", "-l", at).Run())
		d.eventually("the view of alice", covered)
		d.eventually("the event", func() bool { return events() == i+1 })
		e := d.eventsOf(api.EventView)[i]
		require.Equal(t, []any{at}, e.Data["paths"], e)
		require.Empty(t, e.Code, e)
		d.sh("alice", fmt.Sprintf("echo %d >> f; git add f; git commit -qm %d", i, i))
		require.Equal(t, readFile(filepath.Join(tree, "f")), d.sh("alice", "cat f"))
		require.Error(t, os.WriteFile(filepath.Join(tree, "secret"), nil, 0o600), "the rules hold on the host")
	}
	// While no polisd runs nobody notices; the next one does.
	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, exec.Command("umount", "-l", tree).Run())
	d.start()
	d.eventually("the view of alice", covered)

	// An overlay above the view cannot be mounted twice: the event has a code.
	d.eventually("the event of alice", func() bool { return events() == 1 })
	require.NoError(t, exec.Command("umount", "-l", d.path("ws/.polis/worktrees/bob")).Run())
	d.eventually("the event of bob", func() bool { return events() == 2 })
	e := d.eventsOf(api.EventView)[1]
	require.Equal(t, "bob", e.Agent)
	require.Equal(t, os.Getenv("POLIS_E2E_WORKTREE") == "above", e.Code == api.CodeShimUnavailable, e)
	d.sh("bob", "echo two > g; cat g")
	d.must("agents", "stop", "bob")
	d.must("agents", "start", "bob")
	require.Equal(t, "two\n", d.sh("bob", "cat g"))
	d.must("merge", "alice")
	d.must("agents", "stop", "alice")
	require.False(t, covered())
	d.must("agents", "start", "alice")
	require.True(t, covered())
	d.must("agents", "remove", "--force", "alice")
	require.NoDirExists(t, tree)
}
