package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAWorkspaceHasOnePolisd: a polisd with another run_dir opens neither the list of workspaces
// nor a workspace of the first one. The refusal names the owner.
func TestAWorkspaceHasOnePolisd(t *testing.T) {
	one := startDaemon(t, options{config: "[network]\npool = \"10.238.0.0/16\"\n"})
	one.up()
	one.add("alice")
	two := startDaemon(t, options{config: "[network]\npool = \"10.239.0.0/16\"\n"})
	// The same workspace from another polisd.
	e := two.refused(api.CodeWorkspaceOwned, "up", "--repo", one.path("src"), one.path("ws"))
	require.Contains(t, e.Message, one.path("run"))
	require.Equal(t, one.path("run", "polisd.sock"), e.Details["socket"])
	require.Equal(t, "use that one (polisctl --socket "+one.path("run", "polisd.sock")+"), or stop it with its agents; or give this one another workspaces_dir", e.Hint)
	require.Contains(t, two.must("--socket", one.path("run", "polisd.sock"), "status"), "alice")
	require.Contains(t, two.must("status"), "no workspaces")
	// The same list.
	good := readFile(two.path("polisd.toml"))
	two.stop()
	two.write("polisd.toml", strings.ReplaceAll(good, two.path("state"), one.path("state")))
	r := two.polisd("--config", two.path("polisd.toml"))
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, string(api.CodeWorkspaceOwned))
	require.Contains(t, r.stderr, one.path("run"))
	two.write("polisd.toml", good)
	two.start()
	// Without its polisd, but with its agents.
	require.NoError(t, one.signal(syscall.SIGUSR1))
	require.Equal(t, 1, one.living())
	for range 2 {
		e = two.refused(api.CodeWorkspaceOwned, "up", "--repo", one.path("src"), one.path("ws"))
		require.Contains(t, e.Message, "alice")
	}
	one.start()
	require.Equal(t, "one\ntwo\nthree\n", one.sh("alice", "cat main.txt"))
	one.stop()
	require.NoFileExists(t, one.path("ws", ".polis", "owner"))
	// And when it is free.
	two.must("up", "--repo", one.path("src"), one.path("ws"))
	require.Equal(t, "one\ntwo\nthree\n", two.sh("alice", "cat main.txt"))
}

// TestAWorkspaceThatIsGoneCanBeForgotten. One that is temporarily unreachable returns with all of
// its agents.
func TestAWorkspaceThatIsGoneCanBeForgotten(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "echo unsaved > work.txt")
	d.stop()
	away := d.path("away")
	require.NoError(t, os.Rename(d.path("ws"), away))
	d.start()
	require.Contains(t, d.must("--json", "status"), "polisctl down ws")
	require.Contains(t, d.must("status"), "no workspaces")

	// It cannot be reached: a file where the directory was.
	require.NoError(t, os.WriteFile(d.path("ws"), nil, 0o644))
	d.refused(api.CodeWorkspaceInvalid, "down", "ws")
	require.NoError(t, os.Remove(d.path("ws")))

	// It comes back.
	require.NoError(t, os.Rename(away, d.path("ws")))
	d.refused(api.CodeWorkspaceInvalid, "down", "ws")
	d.must("up", "--repo", d.path("src"), d.path("ws"))
	require.Equal(t, "unsaved\n", d.sh("alice", "cat work.txt"))
	d.stop()

	require.NoError(t, os.Rename(d.path("ws"), away))
	d.start()
	d.refused(api.CodeWorkspaceNotFound, "down", "nosuch")
	require.Contains(t, d.must("down", "ws"), "forgotten")
	require.NotContains(t, readFile(d.path("state", "workspaces.json")), d.path("ws"))
	d.refused(api.CodeWorkspaceNotFound, "down", "ws")
	require.FileExists(t, filepath.Join(away, ".polis", "worktrees", "alice", "work.txt"))
	d.must("up", "--repo", d.path("src"), d.path("other"))
}
