package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A read-only agent reads the files and the history of a commit, changes neither, and has nothing of
// its own in the repository. It needs no setting of the workspace.
func TestAReadOnlyAgentReadsACommit(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	d.add("ann")
	d.sh("ann", "echo new > src/new.txt; git add -A; "+ident+"git commit -qm work")

	a := d.add("rev", "--read-only", "--deny", "docs/**")
	require.True(t, a.ReadOnly)
	require.Empty(t, a.Branch)
	require.Len(t, d.bases(), 1)
	tree := filepath.Join(d.bases()[0], "tree")
	require.Equal(t, "one\ntwo\nthree\n", d.sh("rev", "cat main.txt"))
	d.sh("rev", `set -e; test -z "$(git status --porcelain)"; git log -1 >/dev/null; git show --stat HEAD -- main.txt >/dev/null; git diff --exit-code HEAD -- main.txt
		git diff HEAD agent/ann --stat | grep -q new.txt; git grep -q one HEAD -- main.txt; ! git symbolic-ref -q HEAD
		echo x > ~/own; echo x > /tmp/own; test ! -e src/new.txt`)
	d.sh("ann", "echo later > src/later.txt; git add -A; "+ident+"git commit -qm later")
	d.eventually("rev to read a commit that is newer than it", func() bool { return d.exec("rev", "git", "show", "agent/ann:src/later.txt").stdout == "later\n" })
	require.NotContains(t, d.exec("rev", "sh", "-c", "cat docs/guide.md; git show HEAD:docs/guide.md").stdout, "guide", "rules for reading hold")

	writes := ""
	for _, script := range []string{
		"echo x > created", "echo x >> main.txt", ": > main.txt", "rm main.txt", "mv main.txt other", "mkdir made", "rmdir src/deep/er", "chmod 600 main.txt",
		"touch main.txt", "ln main.txt linked", "ln -s main.txt symbolic", "truncate -s 0 main.txt", "mkfifo pipe", "setfattr -n user.x -v y main.txt 2>&1 || python3 -c 'import os; os.setxattr(\"main.txt\", \"user.x\", b\"y\")'",
		"python3 -c 'import os; os.open(\".\", os.O_TMPFILE|os.O_WRONLY)'", "echo x > .git",
		ident + "git commit --allow-empty -m no", "git add -A --renormalize", "git tag mine", "git branch mine", "git checkout -b mine", "git config --local a.b c",
	} {
		writes += "if (" + script + ") >/tmp/out 2>&1; then echo 'not refused'; fi; grep -q 'Read-only file system' /tmp/out || { echo 'refused otherwise'; cat /tmp/out; }\n"
	}
	require.Empty(t, d.exec("rev", "sh", "-xc", writes).stdout)
	d.sh("rev", `set -e; test -z "$(git status --porcelain)"; grep -q READ_ONLY /run/polis/why; ! polisctl lock main.txt`)
	require.Contains(t, d.must("agents", "why", "rev"), "READ_ONLY")
	require.Equal(t, "one\ntwo\nthree\n", readFile(filepath.Join(tree, "main.txt")))
	for _, l := range d.locks() {
		require.NotEqual(t, "rev", l.Holder)
	}

	d.hinted("polisctl agents add without --read-only adds an agent that has a branch", "merge", "rev")
	for _, verb := range [][]string{{"merge", "rev"}, {"merge", "rev", "--dry-run"}, {"queue", "add", "rev"}, {"agents", "commit", "rev"}, {"agents", "diff", "rev"},
		{"agents", "fork", "rev", "copy"}, {"agents", "rebase", "rev"}, {"agents", "set", "rev", "--exclusive", "src/**"}, {"agents", "set", "rev", "--auto-merge"}} {
		d.refused(api.CodeReadOnly, verb...)
	}
	d.refused(api.CodeBadRequest, "agents", "add", "bad", "--base", "custom", "--read-only", "--branch", "mine")
	d.hinted("it must be a branch, a tag or a commit of the workspace", "agents", "add", "bad", "--base", "custom", "--read-only", "--at", "nothing")

	// A commit that the target does not have, and a restart of polisd.
	d.add("at", "--read-only", "--at", "agent/ann")
	require.Len(t, d.bases(), 2)
	require.Equal(t, "new\n", d.sh("at", "cat src/new.txt"))
	d.must("merge", "ann")
	require.Equal(t, "one\n", d.sh("rev", "test ! -e src/new.txt; head -1 main.txt"), "it stays at its commit")
	require.NoError(t, d.signalRestart())
	require.Contains(t, d.exec("rev", "sh", "-c", "echo x > created").stderr, "Read-only file system")
	d.must("agents", "stop", "at")
	d.must("agents", "start", "at")
	require.Contains(t, d.exec("at", "sh", "-c", "echo x > created").stderr, "Read-only file system")
	d.must("maintenance", "--now")
	require.Len(t, d.bases(), 2, "they are in use")

	// Nothing of them is saved in the trash.
	for _, name := range []string{"rev", "at"} {
		var gone api.RemoveResponse
		require.NoError(t, json.Unmarshal([]byte(d.must("agents", "remove", name, "--json")), &gone))
		require.Empty(t, gone.Trash+gone.Aside)
	}
	require.NotContains(t, git(t, project, "for-each-ref"), "rev")
	require.NotContains(t, git(t, d.path("ws", ".polis", "bare-repo.git"), "for-each-ref"), "rev")
	if len(d.bases()) > 0 { // of ann, whose worktree can share them
		d.must("agents", "remove", "ann", "--force")
	}
	d.must("maintenance", "--now")
	require.Empty(t, d.bases())
	require.Zero(t, d.overlays())
	require.Empty(t, glob(d.path("ws", ".polis", "layers", "*")))
	_, err := os.Stat(d.path("ws", ".polis", "worktrees", "rev"))
	require.True(t, os.IsNotExist(err))
	require.NotContains(t, strings.Join(d.mounts(), "\n"), "/worktrees/rev")
}
