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
	admin, head := w.admin(agent), commit
	if branch != "" {
		head = "ref: " + git.Branch(branch)
	}
	for _, dir := range []string{admin, filepath.Join(admin, "logs")} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := give(dir, w.cfg.UID, w.cfg.GID); err != nil {
			return err
		}
	}
	log := fmt.Sprintf("%s %s polis <polis@localhost> %d +0000\tworktree: made\n", strings.Repeat("0", len(commit)), commit, w.cfg.Now().Unix())
	for _, f := range []struct{ path, text string }{
		{filepath.Join(admin, "locked"), initializing}, // first: a crash from here on is seen
		{filepath.Join(admin, "gitdir"), filepath.Join(w.tree(agent), ".git") + "\n"},
		{filepath.Join(admin, "commondir"), "../..\n"},
		{filepath.Join(admin, "HEAD"), head + "\n"},
		{filepath.Join(admin, "logs", "HEAD"), log},
		{filepath.Join(w.tree(agent), ".git"), "gitdir: " + admin + "\n"},
	} {
		file, err := os.OpenFile(f.path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		_, err = file.WriteString(f.text)
		if err = errors.Join(err, file.Close()); err != nil {
			return err
		}
		if err := give(f.path, w.cfg.UID, w.cfg.GID); err != nil {
			return err
		}
	}
	return nil
}

// fill checks the branch out, and then removes the lock of the worktree.
func (w *Workspace) fill(ctx context.Context, agent string) error {
	c := w.cmd(agent, View{}, "", "read-tree", "--reset", "-u", "HEAD")
	c.Write, c.Timeout = []string{w.tree(agent)}, checkoutTimeout
	if _, err := w.Bare().Do(ctx, c); err != nil {
		return err
	}
	return os.Remove(filepath.Join(w.admin(agent), "locked"))
}
