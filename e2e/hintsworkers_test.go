package e2e

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Workers, roles and agents that are frozen.
func TestHintsAboutWorkers(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.reader]\nread = [\"**\"]\n[roles.writer]\nwrite = [\"**\"]\n"})
	d.up()
	d.add("alice", "--role", "reader")
	merged := func() {
		r := d.ctl("agents", "remove", "feat-one")
		// A worker whose work is merged is also removed by itself.
		require.True(t, r.code == 0 || strings.Contains(r.stderr, "there is no agent"), r)
	}
	defer merged()
	d.trials(t,
		tried{hint: "polisctl roles list; roles are tables [roles.NAME] in polisd.toml", refused: "roles show nothing", do: []string{"roles list"}, shows: "reader"},
		tried{hint: "leave --agent out, or name one of the role: polisctl roles show %s", refused: "roles check writer --write main.txt --agent alice",
			do: []string{"roles show writer"}},
		tried{hint: "--base TYPE chooses one, base_type in [delegate] of polisd.toml is the usual one; polisctl agents types lists them", refused: "delegate feat/one work --detach",
			do: []string{"agents types", "delegate feat/one touch_left --wait --base custom -- sh -ec"}},
		tried{hint: "two agents cannot work on one branch: name another one", refused: "delegate feat/one true --base custom -- sh -ec"},
		tried{hint: "polisctl workers result %s shows what it did", refused: "workers cancel feat-one", do: []string{"workers result feat-one"}, shows: "feat/one"},
		tried{hint: "polisctl agents commit %s && polisctl merge %s bring the work home; --force removes the agent and keeps everything under refs/polis/trash/%s",
			refused: "agents remove feat-one", do: []string{"agents commit feat-one", "merge feat-one"}},
		tried{hint: "polisctl workers list shows them", refused: "workers result nothing", do: []string{"workers list"}, shows: "feat/one"},
		tried{hint: "polisctl agents list shows what agents wait for", refused: "agents thaw alice", do: []string{"agents list"}},
		tried{hint: "give them with --input JSON", refused: "roles check reader multi_edit text"},
	)
}
