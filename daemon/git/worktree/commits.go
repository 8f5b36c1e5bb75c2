package worktree

import (
	"context"
	"errors"
	"sync"

	"polis/daemon/git"
)

// commits are those of an agent's work, compared with the target.
type commits struct {
	head string
	// tips are the last ones, of the worktree and of the branch, whose history is complete.
	tips          []string
	ahead, behind int
}

// commits reads the tips of an agent's work and counts their commits. A tip whose history is
// incomplete cannot be counted; it counts as one commit, because no other branch has it.
func (w *Workspace) commits(ctx context.Context, agent, branch, target string) (commits, error) {
	var c commits
	var tip string
	var herr, terr error
	var both sync.WaitGroup
	both.Go(func() { c.head, herr = w.head(ctx, agent) })
	tip, terr = w.branchTip(ctx, branch)
	both.Wait()
	if err := errors.Join(herr, terr); err != nil {
		return c, err
	}
	c.tips = distinct(c.head, tip)
	// Most tips are complete, so they are counted while that is checked.
	var whole []string
	var werr, cerr error
	both.Go(func() { whole, werr = w.whole(ctx, agent, c.tips) })
	c.ahead, c.behind, cerr = w.count(ctx, agent, c.tips, target)
	both.Wait()
	if werr != nil {
		return c, werr
	}
	if len(whole) < len(c.tips) {
		c.tips = whole
		c.ahead, c.behind, cerr = w.count(ctx, agent, whole, target)
		c.ahead++
	}
	return c, cerr
}

// tips are the last commits of an agent's work: those of its worktree and of its branch.
func (w *Workspace) tips(ctx context.Context, head, branch string) ([]string, error) {
	tip, err := w.branchTip(ctx, branch)
	return distinct(head, tip), err
}

func distinct(head, tip string) (tips []string) {
	if head != "" {
		tips = append(tips, head)
	}
	if tip != "" && tip != head {
		tips = append(tips, tip)
	}
	return tips
}

// branchTip is the last commit of a branch; empty if there is none, or the name cannot be one.
func (w *Workspace) branchTip(ctx context.Context, branch string) (string, error) {
	if branch == "" || git.CheckBranch(branch) != nil {
		return "", nil //nolint:nilerr // a name that cannot be a branch has no commits
	}
	tip, err := w.Bare().Ref(ctx, git.Branch(branch))
	if errors.Is(err, git.ErrNotFound) {
		return "", nil
	}
	return tip, err
}

// count counts the commits that the tips have and the target lacks, and those that the target has
// and they lack.
func (w *Workspace) count(ctx context.Context, agent string, tips []string, target string) (ahead, behind int, err error) {
	bare := w.of(agent)
	switch len(tips) {
	case 0:
		return 0, 0, nil
	case 1:
		return bare.Diverged(ctx, tips[0], git.Branch(target))
	}
	if ahead, err = bare.Count(ctx, append(tips[:len(tips):len(tips)], "--not", git.Branch(target))...); err != nil {
		return 0, 0, err
	}
	behind, err = bare.Count(ctx, append([]string{git.Branch(target), "--not"}, tips...)...)
	return ahead, behind, err
}
