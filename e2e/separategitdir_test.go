package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// separate moves the git directory of a project to another place, as git init --separate-git-dir does.
func (d *daemon) separate(repo string) (dir string) {
	d.t.Helper()
	dir = d.path("gits", "src.git")
	require.NoError(d.t, os.Mkdir(filepath.Dir(dir), 0o755))
	require.NoError(d.t, chownAll(repo, 0))
	git(d.t, repo, "init", "-q", "--separate-git-dir", dir)
	require.Equal(d.t, "gitdir: "+dir+"\n", readFile(filepath.Join(repo, ".git")))
	return dir
}

// A project whose .git is a file, with its repository elsewhere, works as any other, from up to restore: what is in its git
// directory reaches agents.
func TestAProjectWithASeparateGitDirectory(t *testing.T) {
	d := startDaemon(t, options{config: hooksConfig})
	repo := d.smallRepo()
	dir := d.separate(repo)
	d.addSubmodule(repo)
	d.giveAway(repo)
	d.write("gits/src.git/info/exclude", "notes.local\n")
	d.write("gits/src.git/hooks/commit-msg", "#!/bin/sh\nif grep -q forbidden \"$1\"; then echo 'the word is forbidden' >&2; exit 1; fi\n")
	require.NoError(t, os.Chmod(filepath.Join(dir, "hooks", "commit-msg"), 0o755))
	d.giveAway(filepath.Dir(dir))
	require.NotContains(t, d.must("up", "--repo", repo, d.path("ws")), "cloned")
	d.add("alice")
	require.Equal(t, "lib\n", d.sh("alice", "cat lib/lib.txt"), "the submodule is there without a network")
	require.Empty(t, d.sh("alice", "echo mine >notes.local; git status --porcelain"), "the owner's excludes hold")
	require.Contains(t, d.exec("alice", "git", "commit", "--allow-empty", "-m", "forbidden").stderr, "the word is forbidden", "the owner's hook runs")

	d.sh("alice", ident+commitOf("a.txt", "alice"))
	require.Contains(t, d.must("merge", "alice"), "project: updated")
	require.Equal(t, "alice\n", readFile(filepath.Join(repo, "a.txt")))
	require.Empty(t, git(t, repo, "status", "--porcelain"))

	// What the owner does there reaches agents, and an operation in progress is left alone.
	d.shAsOwner(repo, "git branch hotfix; echo owner >owner.txt; git add owner.txt; git -c user.name=o -c user.email=o@x commit -qm owner")
	d.add("bob", "--branch", "hotfix")
	require.Equal(t, "owner\n", d.sh("alice", "git show main:owner.txt"))
	d.sh("bob", ident+commitOf("b.txt", "bob"))
	d.shAsOwner(repo, "GIT_SEQUENCE_EDITOR='sed -i 1s/pick/edit/' git -c user.name=o -c user.email=o@x rebase -q -i HEAD~1")
	text := d.must("merge", "bob")
	require.Contains(t, text, "project: left alone")
	require.Contains(t, text, "a rebase is in progress in the checkout")
	require.NoFileExists(t, filepath.Join(repo, "b.txt"))
	// The commands of the warning end it.
	require.Contains(t, text, "git -C "+repo+" rebase --continue")
	require.Contains(t, text, "git -C "+repo+" merge --ff-only refs/remotes/polis/main")
	d.shAsOwner(repo, "git -c user.name=o -c user.email=o@x rebase --continue 2>&1; git merge -q --ff-only refs/remotes/polis/main")
	require.Equal(t, "bob\n", readFile(filepath.Join(repo, "b.txt")))

	// A revert undoes the merge.
	d.must("revert", "alice")
	require.NoFileExists(t, filepath.Join(repo, "a.txt"))
	d.sh("alice", "git merge -q main || true; "+commitOf("again.txt", "again")+"; echo unsaved >unsaved.txt")
	d.must("discard", "alice", "--yes")
	d.must("restore", "alice")
	d.must("agents", "start", "alice")
	require.Equal(t, "again\nunsaved\n", d.sh("alice", "cat again.txt unsaved.txt"))
	d.stop()
	d.start()
	d.must("agents", "start", "alice")
	d.must("merge", "alice")
	require.Equal(t, "again\n", readFile(filepath.Join(repo, "again.txt")))
	require.Empty(t, git(t, repo, "status", "--porcelain"))
	git(t, repo, "fsck", "--no-dangling")
	require.NoDirExists(t, filepath.Join(repo, ".git"))
}

// A git directory that moves away after up is another one, until an administrator says that it is the same project.
func TestAProjectWhoseGitDirectoryMovesAway(t *testing.T) {
	d := startDaemon(t, options{})
	repo := d.up()
	d.add("alice")
	d.sh("alice", ident+commitOf("a.txt", "alice"))
	dir := d.separate(repo)
	d.giveAway(repo)
	d.giveAway(filepath.Dir(dir))
	e := d.refused(api.CodeProjectChanged, "merge", "alice")
	require.Contains(t, e.Message, "another .git is in "+repo)
	require.Contains(t, e.Hint, "polisctl workspace move ws PATH")
	d.must("agents", "stop", "alice")
	d.must("workspace", "move", "ws", repo)
	d.must("merge", "alice")
	require.Equal(t, "alice\n", readFile(filepath.Join(repo, "a.txt")))
	require.Empty(t, git(t, repo, "status", "--porcelain"))
}
