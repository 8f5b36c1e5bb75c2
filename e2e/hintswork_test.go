package e2e

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Work in the trash, and worktrees that are damaged.
func TestHintsAboutLostWork(t *testing.T) {
	d := startDaemon(t, options{config: "[admission]\ndisk_free_mb = 0\n"})
	repo := d.up()
	commit := func(agent string) { d.sh(agent, "echo x >> src/a.txt; git add -A; "+ident+"git commit -qm work") }

	// Restored under a branch that another has by now.
	d.add("alice", "--branch", "work")
	commit("alice")
	d.must("agents", "remove", "alice", "--force")
	git(t, d.path("ws", ".polis", "bare-repo.git"), "update-ref", "refs/heads/work", strings.TrimSpace(git(t, repo, "rev-parse", "main")))
	d.trials(t, tried{hint: "restore to another branch: --branch NAME", refused: "restore alice", do: []string{"restore alice --branch another"}})

	// Saved on a branch without commits.
	d.add("bob")
	d.sh("bob", "git checkout -q --orphan new; echo x > first.txt; git add -A")
	d.must("agents", "remove", "bob", "--force")
	given := d.hinted("its files are in the commit itself: git --git-dir %s ls-tree -r %s", "restore", "bob")
	_, command, _ := strings.Cut(given, ": ")
	out, err := exec.Command("sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
	require.Contains(t, string(out), "first.txt")

	// A worktree that is damaged, and one that is gone.
	d.add("carl")
	commit("carl")
	d.must("agents", "stop", "carl")
	index := strings.TrimSpace(glob(d.path("ws", ".polis", "bare-repo.git", "worktrees", "carl", "index"))[0])
	require.NoError(t, os.WriteFile(index, []byte("no index"), 0o644))
	d.trials(t,
		tried{hint: "polisctl agents diff %s --committed compares its commits, whatever lies in its worktree", refused: "agents diff carl", do: []string{"agents diff carl --committed"}, shows: "src/a.txt"},
		tried{hint: "--force saves everything in the trash and removes it", refused: "agents remove carl", do: []string{"agents remove carl --force"}},
	)
	d.add("dora")
	d.must("agents", "stop", "dora")
	require.NoError(t, os.RemoveAll(d.path("ws", ".polis", "worktrees", "dora")))
	d.trials(t, tried{hint: "polisctl agents remove %s --force saves what is left in the trash", refused: "agents diff dora", do: []string{"agents remove dora --force"}})

	// A disk with too little free space.
	d.add("emil")
	d.must("agents", "stop", "emil")
	d.write("polisd.toml", strings.Replace(readFile(d.path("polisd.toml")), "disk_free_mb = 0", "disk_free_mb = 900000000", 1))
	require.NoError(t, d.signalRestart())
	d.trials(t, tried{hint: "free space (polisctl gc), use --force, or change [admission] in polisd.toml", refused: "agents start emil", do: []string{"gc", "agents start emil --force"}})
}
