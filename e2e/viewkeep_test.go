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

// The overlay below a view, which polisd reads, is no directory of the agent's programs: they work on, and an event says what
// polisd cannot do.
func TestFilesBelowAViewThatAreUnmountedAreReported(t *testing.T) {
	d := startDaemon(t, options{config: "[workspace]\nworktree = \"shared\"\nlayers = \"view\"\n"})
	d.up()
	d.add("alice")
	d.sh("alice", ident+"echo one >f; git add f; git commit -qm one; echo two >g")
	merged := d.path("ws/.polis/layers/alice/merged")
	reported := func(n int) api.Event {
		t.Helper()
		var found []api.Event
		d.eventually("the event", func() bool { found = d.eventsOf(api.EventView); return len(found) == n })
		return found[n-1]
	}
	require.NoError(t, exec.Command("umount", "-l", merged).Run())
	e := reported(1)
	require.Equal(t, api.CodeWorktreeFailed, e.Code)
	require.Equal(t, []any{merged}, e.Data["paths"])
	require.Contains(t, e.Message, "polis cannot read them")

	// Its programs work on; polisd takes the empty directory for nobody's work.
	require.Equal(t, "one\ntwo\n", d.sh("alice", "echo three >h; cat f g"))
	require.NotZero(t, d.ctl("agents", "diff", "alice").code)
	require.NotZero(t, d.ctl("agents", "remove", "alice").code)
	require.Equal(t, "three\n", d.sh("alice", "cat h"))

	// A polisd that comes later says it, too.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, "alice", reported(1).Agent)

	// What the hint says mends it, and then nothing is lost.
	require.Equal(t, "polisctl agents stop alice && polisctl agents start alice", e.Data["hint"])
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("alice", "cat f g h"))
	require.Contains(t, d.must("agents", "diff", "alice"), "+three")
	d.sh("alice", "git add -A; git commit -qm all")
	d.must("merge", "alice")
	d.must("agents", "remove", "alice")
	require.Len(t, d.eventsOf(api.EventView), 1)
}

// The mounts below an overlay that is above the view serve nobody on the host.
func TestMountsBelowAnOverlayAreNotMissed(t *testing.T) {
	d := above(t, options{})
	d.add("alice")
	d.sh("alice", "echo one >f")
	for _, at := range []string{d.viewMount("alice"), d.path("ws/.polis/layers/alice/merged")} {
		if d.must("agents", "diff", "alice"); exec.Command("mountpoint", "-q", at).Run() == nil {
			require.NoError(t, exec.Command("umount", "-l", at).Run())
		}
		require.Contains(t, d.must("agents", "diff", "alice"), "+one")
		d.sh("alice", "echo more >>f")
		d.snapshot("alice")
	}
	require.Empty(t, d.eventsOf(api.EventView))
	d.must("agents", "stop", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "one\nmore\nmore\n", d.sh("alice", "cat f"))
	d.sh("alice", ident+"git add -A; git commit -qm all")
	d.must("merge", "alice")
	d.must("agents", "remove", "alice")
}
