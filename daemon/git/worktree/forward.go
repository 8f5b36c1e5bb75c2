package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/failpoint"
)

// Forwarded is a branch that was brought forward. From and To are equal if there was
// nothing to do, and Kept then says why not, if there was something. Inside is the commit to which only
// git in the agent can bring it: its files are mounted above its view.
type Forwarded struct {
	From, To string
	Kept     string
	Inside   string
}

// SyncForward is Sync and then Forward, which an error of Sync does not prevent. Most tasks begin
// where the target is, and every run of git delays them: the agent's commit is read during Sync,
// which knows the target's.
func (w *Workspace) SyncForward(ctx context.Context, agent, branch string) (f Forwarded, unsynced, err error) {
	var head string
	var herr error
	var both sync.WaitGroup
	if err := w.usable(agent); err == nil {
		both.Go(func() { head, herr = w.head(ctx, agent) })
	}
	s, unsynced := w.Sync(ctx)
	both.Wait()
	if herr == nil && unsynced == nil && head != "" && head == s.Commit {
		return Forwarded{From: head, To: head}, nil, nil
	}
	f, err = w.Forward(ctx, agent, branch)
	return f, unsynced, err
}

// Forward brings the branch and the files of an agent that has nothing of its own to
// where the target is. It writes below the view, so that it neither takes a lease nor
// waits for one; the caller must see to it that the agent does nothing meanwhile, and
// have its view invalidated. What the agent has changed, whatever it is, keeps all as it is.
//
// The files come first: who dies before the branch has moved leaves an index that is the
// target's, which the next Forward recognizes.
func (w *Workspace) Forward(ctx context.Context, agent, branch string) (Forwarded, error) {
	fail := func(err error) (Forwarded, error) {
		return Forwarded{}, api.Errorf(api.CodeWorktreeFailed, "bring the branch of %s forward: %w", agent, err)
	}
	keep := func(head, why string) (Forwarded, error) { return Forwarded{From: head, To: head, Kept: why}, nil }
	if err := w.usable(agent); err != nil {
		return Forwarded{}, err
	}
	target, err := w.Target(ctx)
	if err != nil {
		return fail(err)
	}
	// Most tasks begin where the target is, and every run of git delays them: the two commits tell
	// that.
	var head string
	var herr error
	var both sync.WaitGroup
	both.Go(func() { head, herr = w.head(ctx, agent) })
	to, err := w.Bare().Ref(ctx, git.Branch(target))
	both.Wait()
	if err = errors.Join(err, herr); err != nil {
		return fail(err)
	}
	if head == to {
		return keep(head, "")
	}
	s, err := w.Status(ctx, agent, branch, View{})
	if err != nil {
		return Forwarded{}, err
	}
	if s.Behind == 0 {
		return keep(s.Head, "")
	}
	why, err := w.busyWith(agent, branch)
	if err != nil {
		return fail(err)
	}
	shown, err := w.above(agent)
	if err != nil {
		return fail(err)
	}
	filled := s.Staged > 0 && s.Unstaged+s.Untracked+s.Conflicted == 0 && !shown && w.indexIs(ctx, agent, to)
	switch {
	case why != "":
	case s.Head == "" || s.Branch != branch:
		why = "it is not on its branch"
	case s.Ahead > 0:
		why = "it has commits of its own"
	case s.Dirty() && !filled:
		why = "it has changes in no commit"
	case shown:
		return Forwarded{From: s.Head, To: s.Head, Kept: "its files are mounted above its view, and change there alone", Inside: to}, nil
	}
	if why != "" {
		return keep(s.Head, why)
	}
	done, err := w.acquire(ctx, git.Branch(branch))
	if err != nil {
		return fail(err)
	}
	defer done()
	if err := w.changing(ctx, agent, s.Head, to); err != nil {
		return fail(err)
	}
	if !filled {
		if err := w.readTree(ctx, agent, "-m", "-u", s.Head, to); err != nil {
			return fail(err) // as a file that git ignores, in the way of one of the target's
		}
	}
	failpoint.Hit("forward:files")
	if err := w.Bare().Update(ctx, git.Branch(branch), to, s.Head, "polis: forward to "+target); err != nil {
		return fail(err)
	}
	return Forwarded{From: s.Head, To: to}, nil
}

// indexIs reports whether an agent's index is the tree of a commit.
func (w *Workspace) indexIs(ctx context.Context, agent, commit string) bool {
	_, err := w.within(ctx, agent, w.cmd(agent, View{}, "", "diff-index", "--cached", "--quiet", "--ignore-submodules=all", "--end-of-options", commit))
	return err == nil
}

// busyWith returns the unfinished git operation in an agent's worktree, "" if there is none.
func (w *Workspace) busyWith(agent, branch string) (string, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return "", err
	}
	defer root.Close()
	head, err := readSmall(root, "HEAD")
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	if strings.TrimSpace(head) != "ref: "+git.Branch(branch) {
		return "it is not on its branch", nil
	}
	return unfinishedIn(root)
}

// unfinishedIn returns the unfinished git operation of a worktree, "" if there is none.
func unfinishedIn(root *os.Root) (string, error) {
	for _, name := range []string{"MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "BISECT_LOG", "index.lock"} {
		if _, err := root.Lstat(name); err == nil {
			return "git is in the middle of something: " + name, nil
		} else if !errors.Is(err, os.ErrNotExist) {
			return "", fmt.Errorf("look for %s: %w", filepath.Base(name), err)
		}
	}
	return "", nil
}
