package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// The setup command of a workspace.
func TestHintsAboutSetups(t *testing.T) {
	d, repo := prepared(t, options{}, "")
	d.eventually("the setup", func() bool { return d.setupStatus().State == api.SetupReady })

	// The command fails.
	require.NoError(t, os.WriteFile(repo+"/deps.lock", []byte("broken\n"), 0o644))
	git(t, repo, "commit", "-qam", "broken")
	d.giveAway(repo)
	d.eventually("the workspace to follow", func() bool {
		d.must("agents", "add", "ann", "--base", "custom")
		d.must("agents", "remove", "ann")
		return d.setupStatus().State == api.SetupFailed
	})
	d.trials(t, tried{hint: "polisctl setup log shows its output; agents start without its files", refused: "setup run", do: []string{"setup log"}})

	// polis itself cannot run it.
	logs := d.path("ws", ".polis", "setup-logs")
	require.NoError(t, os.Rename(logs, logs+".away"))
	require.NoError(t, os.WriteFile(logs, nil, 0o600))
	require.NoError(t, os.WriteFile(repo+"/deps.lock", []byte("left\nright\n"), 0o644))
	git(t, repo, "commit", "-qam", "whole")
	d.giveAway(repo)
	d.must("agents", "add", "carl", "--base", "custom")
	given := d.hinted("agents start without its files; polisctl setup run tries it again", "setup", "run", "--again")
	require.NoError(t, os.Remove(logs))
	require.Contains(t, given, "polisctl setup run")
	d.must("setup", "run")

	// No command is configured, and none has run.
	require.NoError(t, os.RemoveAll(logs))
	d.trials(t, tried{hint: "polisctl setup shows its state", refused: "setup log", do: []string{"setup"}})
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `run = "sh ci.sh"`, `run = ""`, 1))
	require.NoError(t, d.signalRestart())
	d.hinted("set run and inputs in [workspace.setup] of polisd.toml", "setup", "run")
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), `run = ""`, `run = "sh ci.sh"`, 1))
	require.NoError(t, d.signalRestart())
	d.must("setup", "run", "--again")
}
