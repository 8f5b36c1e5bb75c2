package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestCommandsChooseAWorkspace: with two, a command that needs one names both, its hint works, and a command for an agent of another one
// is refused.
func TestCommandsChooseAWorkspace(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	require.NoError(t, os.CopyFS(d.path("src2"), os.DirFS(d.path("src"))))
	d.giveAway(d.path("src2"))
	d.must("up", "--repo", d.path("src2"), d.path("other"))
	r := d.refused(api.CodeBadRequest, "agents", "add", "alice", "--base", "custom", "--", "sh", "-ec")
	require.Contains(t, r.Message, "there are 2 workspaces: choose one of other, ws")
	d.must(append([]string{"agents", "add", "alice", "--base", "custom"}, append(strings.Fields(r.Hint), "--", "sh", "-ec")...)...)
	require.Equal(t, "one\n", d.must("agents", "exec", "-w", "other", "alice", "head", "-n", "1", "main.txt"))
	require.Equal(t, "one\n", d.must("agents", "exec", "alice", "head", "-n", "1", "main.txt"))
	d.refused(api.CodeAgentNotFound, "agents", "exec", "-w", "ws", "alice", "true")
	require.Equal(t, "--workspace other", d.refused(api.CodeAgentNotFound, "agents", "exec", "-w", "none", "alice", "true").Hint)
	d.must("agents", "run", "alice", ident+commitOf("chosen.txt", "chosen"))
	require.Equal(t, api.OutcomeMerged, d.settled("alice").Outcome)
	require.FileExists(t, d.path("src2", "chosen.txt"))
	require.NoFileExists(t, d.path("src", "chosen.txt"))
	d.must("agents", "remove", "alice")
}
