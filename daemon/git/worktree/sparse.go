package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/rules/cone"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// A worktree that is made with a cone (package cone) is a full checkout of the files in it: the others have the mark
// of git-update-index(1), --skip-worktree, in its index, and are not on the disk. A base tree has all files of a commit, so
// such a worktree has no layers.
//
// The agent's git finds the patterns where git-sparse-checkout(1) writes them, and the agent changes them by that command.
// Git that polis runs never reads that file: polis reads it as data, and gives git patterns of its own in a git
// directory that exists for one command.

// patternFile is where git reads the patterns of a worktree, below its part of the git directory.
const patternFile = "info/sparse-checkout"

// made returns the cone that an agent's worktree is made with; nil: it has all files.
func (w *Workspace) made(agent string) *cone.Cone {
	if w.cfg.Cone == nil {
		return nil
	}
	return w.cfg.Cone(agent)
}

// Cone returns the cone of an agent's worktree that was made with one: the one that its git has now, if its patterns
// are those of a cone, else the one that it was made with. nil: it has all files, also if the agent has ended its
// sparse checkout.
func (w *Workspace) Cone(ctx context.Context, agent string) *cone.Cone {
	made := w.made(agent)
	if made == nil {
		return nil
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return made
	}
	defer admin.Close()
	if w.disabled(ctx, admin) {
		return nil
	}
	if now, err := readCone(admin); err == nil {
		return &now
	}
	return made
}

// FoundCone returns the cone of a worktree of which nothing is recorded; nil if it has none.
func (w *Workspace) FoundCone(ctx context.Context, agent string) *cone.Cone {
	if id, err := w.baseOf(agent); err != nil || id != "" {
		return nil
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return nil
	}
	defer admin.Close()
	now, err := readCone(admin)
	if err != nil || w.disabled(ctx, admin) {
		return nil
	}
	return &now
}

// readCone reads the patterns of an agent's git, which the agent writes.
func readCone(admin *os.Root) (cone.Cone, error) {
	text, err := readText(admin, patternFile, cone.MaxText)
	if err != nil {
		return cone.Cone{}, err
	}
	return cone.Parse(text)
}

// disabled reports whether an agent has ended its sparse checkout, as git-sparse-checkout(1), disable, does: in the
// configuration of the worktree. The patterns stay then.
func (w *Workspace) disabled(ctx context.Context, admin *os.Root) bool {
	text, err := readText(admin, "config.worktree", cone.MaxText)
	if err != nil {
		return false // most have none
	}
	set, err := w.Bare().Do(ctx, git.Cmd{Args: []string{"config", "--file", "-", "--type=bool", "--get", "core.sparseCheckout"}, Stdin: strings.NewReader(text)})
	return err == nil && strings.TrimSpace(string(set)) == "false"
}

// WriteCone gives the git of an agent that is stopped the patterns of the cone that its worktree is made with, if it
// has none.
func (w *Workspace) WriteCone(agent string) error {
	c := w.made(agent)
	if c == nil {
		return nil
	}
	err := w.writeCone(agent, *c)
	if err != nil {
		err = api.Errorf(api.CodeWorktreeFailed, "write the sparse checkout of agent %s: %w", agent, err)
	}
	return err
}

func (w *Workspace) writeCone(agent string, c cone.Cone) error {
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	if _, err := admin.Lstat(patternFile); err == nil {
		return nil
	}
	if err := w.makeInfo(admin); err != nil {
		return err
	}
	const fresh = patternFile + ".polis"
	if err := admin.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a polisd that was killed
		return err
	}
	if err := w.createFile(admin, fresh, c.Patterns()); err != nil {
		return err
	}
	failpoint.Hit("sparse:written")
	return admin.Rename(fresh, patternFile)
}

// makeInfo makes the directory of the patterns.
func (w *Workspace) makeInfo(admin *os.Root) error {
	dir := filepath.Dir(patternFile)
	err := admin.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	return admin.Lchown(dir, int(w.cfg.UID), int(w.cfg.GID))
}

// readTree runs git-read-tree(1) with these arguments for an agent's worktree, and writes its files: those of its
// cone, if it has one. Objects have their ids, and no other names.
func (w *Workspace) readTree(ctx context.Context, agent string, args ...string) error {
	c := w.cmd(agent, View{}, "", append([]string{"read-tree"}, args...)...)
	c.Write, c.Timeout = []string{w.tree(agent)}, checkoutTimeout
	if now := w.Cone(ctx, agent); now != nil {
		return w.sparsely(ctx, agent, *now, c)
	}
	_, err := w.Bare().Do(ctx, c)
	return err
}

// sparsely runs a command with the patterns of a cone, without the files that the agent's rules withhold. The git
// directory is one of its own, with nothing of the agent's but the index.
func (w *Workspace) sparsely(ctx context.Context, agent string, now cone.Cone, c git.Cmd) (err error) {
	dir, err := w.scratch("save-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(dir)) }()
	root, err := openScratch(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	text, mode := now.Patterns(), "true"
	if w.cfg.Withheld != nil {
		if not := w.cfg.Withheld(agent); not != "" {
			text, mode = text+not, "false"
		}
	}
	if err := w.makeInfo(root); err != nil {
		return err
	}
	if err := errors.Join(w.createFile(root, "HEAD", "ref: refs/heads/none\n"), w.createFile(root, patternFile, text)); err != nil {
		return err
	}
	c.GitDir, c.Index = dir, filepath.Join(w.admin(agent), "index")
	c.Config = append(c.Config, "core.sparseCheckout=true", "core.sparseCheckoutCone="+mode, "sparse.expectFilesOutsideOfPatterns=true")
	_, err = w.Bare().Do(ctx, c)
	return err
}
