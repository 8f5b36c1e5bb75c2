package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestDownRemovesAWorkspace is the edge case of trashing in seed 001. No unsaved work is lost,
// nothing of the agents remains, and a second up restores the workspace.
func TestDownRemovesAWorkspace(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	d.add("alice", "--port", "3000")
	d.add("clean")
	d.worker("runs")
	d.sh("alice", ident+"echo one > one.txt; git add -A; git commit -qm one; echo two > two.txt")
	d.must("agents", "run", "runs", "sleep 1000")
	d.must("lock", "--reason", "mine", "README.md", "-w", "ws")

	e := d.refused(api.CodeUnsavedWork, "down", "ws")
	require.Contains(t, e.Message, "alice has work that is nowhere else")
	require.Contains(t, e.Message, "runs")
	require.Contains(t, e.Hint, "--force")
	for _, n := range []string{"alice", "clean", "runs"} {
		_, there := d.agent(n)
		require.True(t, there, "%s: all or nothing", n)
	}
	d.refused(api.CodeWorkspaceNotFound, "down", "nosuch")
	d.refused(api.CodeWorkspaceNotFound, "down", "/nosuch")

	var resp api.DownResponse
	require.NoError(t, json.Unmarshal([]byte(d.must("--json", "down", "--force", repo)), &resp))
	require.Equal(t, d.path("ws"), resp.Path)
	require.Len(t, resp.Removed, 3)
	require.NotEmpty(t, resp.Removed[0].Trash)
	require.Zero(t, d.living())
	require.Empty(t, d.mounts())
	for _, n := range []string{"alice", "clean", "runs"} {
		d.nothingOf(n, "down")
	}
	require.Empty(t, d.locks())
	require.Contains(t, d.must("status"), "no workspaces")
	require.Contains(t, d.must("events"), "workspace:removed")
	d.refused(api.CodeWorkspaceNotFound, "agents", "add", "late", "--base", "custom")
	require.Equal(t, "# small\n", readFile(filepath.Join(repo, "README.md")))
	require.Empty(t, git(t, repo, "status", "--porcelain"))

	// A later polisd does not have the workspace either. Then up restores it.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Contains(t, d.must("status"), "no workspaces")
	d.must("up", "--repo", repo, d.path("ws"))
	d.must("restore", "alice")
	require.Equal(t, "one\ntwo\n", d.sh("alice", "cat one.txt two.txt"))
	require.NotZero(t, d.ports("alice")[3000].External)
	d.must("merge", "alice")
	require.FileExists(t, filepath.Join(repo, "one.txt"))
	require.Equal(t, "?? two.txt\n", d.sh("alice", "git status --porcelain"))

	// By the current directory, if all work is stored elsewhere.
	d.sh("alice", "rm two.txt")
	cmd := d.follow("events", "-f", "-q") // who follows continues
	r := d.ctlIn(filepath.Join(repo, "src"), "down")
	require.Zero(t, r.code, r)
	require.Contains(t, r.stdout, "agent alice is removed")
	cmd.ends(syscall.SIGINT)
	require.Zero(t, d.living())
}

// TestPolisdDiesWhileItRemovesAWorkspace: what was removed is in the trash, the rest is
// unchanged, and the same command completes the removal.
func TestPolisdDiesWhileItRemovesAWorkspace(t *testing.T) {
	d := startDaemon(t, options{failpoints: true})
	repo := d.up()
	down := func() result { return d.ctl("down", "--force", "ws") }
	fill := func() {
		d.must("up", "--repo", repo, d.path("ws"))
		for _, n := range []string{"alice", "bob"} {
			if _, there := d.agent(n); !there {
				d.add(n)
			}
			d.sh(n, "echo "+n+" > "+n+".txt")
		}
	}
	fill()
	require.Subset(t, d.steps(down), []string{"remove:kept", "remove:forgotten", "state:written"})
	for _, step := range []string{"remove:noted", "remove:saved", "remove:forgotten", "state:written"} {
		fill()
		d.dieAt(step, down)
		require.Empty(t, d.report().Errors, step)
		if r := d.ctl("down", "--force", "ws"); r.code != 0 {
			require.Contains(t, r.stderr, "no workspace", step)
		}
		require.Zero(t, d.living(), step)
		for _, n := range []string{"alice", "bob"} {
			d.nothingOf(n, step)
			last := strings.Fields(git(t, d.internal(), "for-each-ref", "refs/polis/trash/"+n, "--format=%(refname)", "--sort=-refname"))[0]
			require.Equal(t, n+"\n", git(t, d.internal(), "show", last+":"+n+".txt"), step)
		}
	}
	_, err := os.Stat(d.bare())
	require.NoError(t, err)
}
