package e2e

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// Agents that are frozen, and merges that a task could repeat.
func TestHintsAboutFrozenAgentsAndReworks(t *testing.T) {
	d := startDaemon(t, options{config: "[patrol]\ninterval = \"0s\"\n[delegate]\nworkers = 1\n[roles.w]\nwrite = [\"**\"]\nread = [\"**\"]\n[roles.other]\nread = [\"**\"]\n"})
	d.up()
	d.add("alice", "--role", "w", "--", "sh", "-ec", ident+"{prompt}")
	inside := func(hint string, args ...string) {
		t.Helper()
		r := d.exec("alice", append([]string{"polisctl", "--json"}, args...)...)
		require.NotZero(t, r.code, "%v: %s", args, r)
		var e struct{ Error api.Error }
		decode(t, r.stderr, &e)
		require.Regexp(t, pattern(hint), e.Error.Hint, "%v: %s", args, r)
	}
	// Workers of an agent.
	inside("leave --base out", "delegate", "feat/a", "true", "--base", "claude")
	inside("leave --role out; rules and limits can be narrowed", "delegate", "feat/a", "true", "--role", "other")
	inside("--wait shows the result", "delegate", "feat/a", "true", "--follow")
	inside("it continues: polisctl workers wait %s", "--timeout", "3s", "delegate", "feat/a", "echo left > left.txt; sleep 4", "--wait", "--role", "w")
	d.ctl("workers", "wait", "--all")
	inside("polisctl workers cleanup removes those that have ended; workers in [delegate] of polisd.toml is the bound", "delegate", "feat/b", "true")
	said := func(hint string) {
		t.Helper()
		require.Regexp(t, strings.Trim(pattern(hint), "^$"), d.must("workers", "cleanup"))
	}
	said("polisctl workers cleanup --force saves them in the trash; polisctl agents commit %s commits them")
	d.must("agents", "commit", "feat-a")
	require.Contains(t, d.must("workers", "cleanup"), "feat-a was removed")
	require.Contains(t, d.sh("alice", "polisctl delegate feat/b true --wait"), "feat/b")
	// What a worker left cannot be read.
	index := glob(d.path("ws", ".polis", "bare-repo.git", "worktrees", "feat-b", "index"))
	require.Len(t, index, 1)
	require.NoError(t, os.WriteFile(index[0], []byte("no index"), 0o644))
	said("polisctl workers cleanup --force saves it in the trash")
	require.Contains(t, d.must("workers", "cleanup", "--force"), "feat-b was removed")

	d.trials(t,
		tried{hint: "polisctl agents shell NAME opens one", refused: "mcp", do: []string{}},
		tried{hint: "polisctl queue shows the last results", refused: "queue rework alice", do: []string{"queue"}},
	)
}
