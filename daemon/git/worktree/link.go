package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/git"
)

// initializing is the content of the lock of a worktree that is not filled yet (as
// git-worktree(1) does).
const initializing = "initializing"

// link creates the files that tie a worktree to the shared repository (gitrepository-layout(5)),
// on a branch that is at commit, or with a detached HEAD if branch is empty. git-worktree(1) would do it, but it reads the files of all other
// worktrees first, which their agents write: a huge or damaged one would block every new agent.
func (w *Workspace) link(agent, branch, commit string) error {
	return w.linkTo(agent, branch, commit, func() error { return nil })
}

// linkTo is link. It calls place once the lock of the worktree exists, which must make the worktree's
// directory if there is none.
func (w *Workspace) linkTo(agent, branch, commit string, place func() error) error {
	head := commit
	if branch != "" {
		head = "ref: " + git.Branch(branch)
	}
	admin, err := w.makeAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := w.createFile(admin, "locked", initializing); err != nil { // first: a crash from here on is seen
		return err
	}
	if err := place(); err != nil {
		return err
	}
	tree, err := w.openRoot(w.tree(agent))
	if err != nil {
		return err
	}
	defer tree.Close()
	// The owner gets the directories last: nobody else can replace a file in them until then.
	if err := admin.Mkdir("logs", 0o755); err != nil {
		return err
	}
	log := fmt.Sprintf("%s %s polis <polis@localhost> %d +0000\tworktree: made\n", strings.Repeat("0", len(commit)), commit, w.cfg.Now().Unix())
	for _, f := range []struct {
		in         *os.Root
		name, text string
	}{
		{admin, "gitdir", filepath.Join(w.tree(agent), ".git") + "\n"},
		{admin, "commondir", "../..\n"},
		{admin, "HEAD", head + "\n"},
		{admin, filepath.Join("logs", "HEAD"), log},
		{tree, ".git", "gitdir: " + w.admin(agent) + "\n"},
	} {
		if err := w.createFile(f.in, f.name, f.text); err != nil {
			return err
		}
	}
	return errors.Join(w.giveDir(admin, "logs"), w.giveDir(admin, "."))
}

// fill checks a commit out, and then removes the lock of the worktree.
func (w *Workspace) fill(ctx context.Context, agent, commit string) error {
	if c := w.made(agent); c != nil {
		if err := w.writeCone(agent, *c); err != nil {
			return err
		}
	}
	if err := w.readTree(ctx, agent, "--reset", "-u", commit); err != nil {
		return err
	}
	return w.unlock(agent)
}
