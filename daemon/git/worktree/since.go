package worktree

import (
	"context"
	"io"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Head is the commit an agent's worktree is on; empty if there is none.
func (w *Workspace) Head(ctx context.Context, agent string) (string, error) {
	if err := w.usable(agent); err != nil {
		return "", err
	}
	return w.head(ctx, agent)
}

// Since is Status with the number of commits that the agent's HEAD and branch have,
// and neither the target nor base has. If nobody knows base any more, all of its own
// count.
func (w *Workspace) Since(ctx context.Context, agent, branch, base string, v View) (Status, int, error) {
	s, tips, err := w.status(ctx, agent, branch, v)
	if err != nil || s.Ahead == 0 || !git.IsOID(base) || len(tips) == 0 {
		return s, s.Ahead, err
	}
	target, err := w.Target(ctx)
	if err != nil {
		return s, s.Ahead, err
	}
	n, err := w.of(agent).Count(ctx, append(tips, "--not", git.Branch(target), base)...)
	if err != nil {
		return s, s.Ahead, nil //nolint:nilerr // base is gone, as after a gc
	}
	return s, n, nil
}

// Tree returns the ID of the tree of a commit of an agent's.
func (w *Workspace) Tree(ctx context.Context, agent, commit string) (string, error) {
	if err := w.usable(agent); err != nil {
		return "", err
	}
	if !git.IsOID(commit) {
		return "", api.Errorf(api.CodeNotFound, "the commits of this work of %s are not known", agent)
	}
	tree, err := w.of(agent).Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+"^{tree}")
	if err != nil {
		return "", api.Errorf(api.CodeNotFound, "commit %s of agent %s does not exist any more: %w", commit, agent, err)
	}
	return tree, nil
}

// DiffCommits writes what is different between two commits of an agent's.
func (w *Workspace) DiffCommits(ctx context.Context, agent, base, head string, opt DiffOptions, to io.Writer) error {
	if err := w.usable(agent); err != nil {
		return err
	}
	if !git.IsOID(base) || !git.IsOID(head) {
		return api.Errorf(api.CodeNotFound, "the commits of this work of %s are not known", agent)
	}
	args := []string{"diff", "--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short"}
	if opt.Stat {
		args = append(args, "--stat")
	}
	if opt.NameOnly {
		args = append(args, "--name-only")
	}
	if _, err := w.of(agent).Do(ctx, git.Cmd{Args: append(args, "--end-of-options", base, head), Stdout: to}); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "compare the work of %s: %w", agent, err)
	}
	return nil
}

// Tips returns the last commits of an agent's work: those of its HEAD and of its branch.
func (w *Workspace) Tips(ctx context.Context, agent, branch string) ([]string, error) {
	head, err := w.Head(ctx, agent)
	if err != nil {
		return nil, err
	}
	return w.tips(ctx, head, branch)
}
