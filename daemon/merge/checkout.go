package merge

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/gate"
	"polis/internal/failpoint"
)

// CheckoutUpdate is the state of the user's checkout after a merge.
type CheckoutUpdate struct {
	// Target and Commit are where the shared repository is. The commit is in the project as
	// refs/remotes/polis/<target> if Fetched.
	Target, Commit string
	Fetched        bool
	// Updated: the project's branch of that name is at Commit. Files: and so are the files of the
	// checkout, which is on that branch.
	Updated, Files bool
	// Reason is why not, Command what the user can do about it.
	Reason, Command string
}

// State is what happened to the checkout, in a word and a note.
func (c CheckoutUpdate) State() (project, note string) {
	switch {
	case c.Files:
		return "updated", ""
	case c.Updated:
		return "branch updated", fmt.Sprintf("the checkout of the project is not on branch %s; its files are as before", c.Target)
	}
	return "left alone", c.Note()
}

// AfterRevert returns the state of the checkout, with a note for the caller of a revert. err is that of
// UpdateCheckout: the revert is done all the same.
func (c CheckoutUpdate) AfterRevert(err error) (project, note string) {
	if err != nil {
		return "", fmt.Sprintf("the revert is done, but the project's checkout could not be updated: %v", err)
	}
	return c.State()
}

// Note is why the checkout was left alone, and what the user can do about it.
func (c CheckoutUpdate) Note() string {
	if c.Command == "" {
		return c.Reason
	}
	return strings.TrimSpace(c.Reason + "; " + c.Command)
}

// UpdateCheckout fast-forwards the project's target branch to the shared one, if that is possible and
// loses nothing: a checkout with changes, one with filters for what changes, and a branch with commits
// of its own are left unchanged. An error means that not even the commits could be fetched.
func (m *Merger) UpdateCheckout(ctx context.Context) (CheckoutUpdate, error) {
	target, err := m.target(ctx, "")
	if err != nil {
		return CheckoutUpdate{}, err
	}
	done, err := m.one(ctx, target)
	if err != nil {
		return CheckoutUpdate{}, err
	}
	defer done()
	a := CheckoutUpdate{Target: target}
	var p *worktree.Project
	var at place
	err = inOrder(func() (err error) {
		if a.Commit, err = m.Workspace.Bare().Ref(ctx, git.Branch(target)); err != nil {
			return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", target, err)
		}
		return nil
	}, func() (err error) {
		if p, err = m.Workspace.Project(ctx); err != nil || p == nil {
			return err
		}
		if at, err = branchOf(ctx, p, target); err != nil {
			return api.Errorf(api.CodeWorkspaceInvalid, "read branch %s of the project: %w", target, err)
		}
		return nil
	})
	if err != nil {
		return a, err
	}
	if p == nil {
		a.Reason = "the project is no git repository"
		return a, nil
	}
	// A commit that the shared repository lacks is no ancestor of its commits.
	behind := at.commit == a.Commit
	if at.commit != "" && !behind {
		behind, err = m.Workspace.Bare().IsAncestor(ctx, at.commit, a.Commit)
		if _, unknown := git.ExitCode(err); err != nil && !unknown {
			return a, err
		}
	}
	since := ""
	if behind {
		since = at.commit
	}
	// Meanwhile, check whether the checkout can be updated.
	var keep error
	var changes []gate.Change
	moves := at.here && behind && at.commit != "" && at.commit != a.Commit
	var begun error
	var ends string
	var conv *conversions
	err = inOrder(func() error { return m.Workspace.Publish(ctx, p, target, a.Commit, since) }, func() (err error) {
		if begun, ends, err = busy(ctx, p, target); err != nil {
			return api.Errorf(api.CodeWorkspaceInvalid, "look for operations in progress in the project: %w", err)
		}
		if moves && begun == nil {
			if conv, err = conversionsOf(ctx, p, m.homeOf(p)); err != nil {
				keep = err
				return nil //nolint:nilerr // it is why the checkout is left alone
			}
			keep = keeps(ctx, p, conv)
		}
		return nil
	}, func() (err error) {
		if moves {
			changes, err = changesOf(ctx, m.Workspace.Bare(), at.commit, a.Commit)
		}
		return err
	})
	if err != nil {
		return a, err
	}
	if moves && begun == nil && keep == nil {
		keep = conv.refuse(ctx, p, changes)
	}
	a.Fetched = true
	failpoint.Hit("project:fetched")
	if begun != nil && at.commit != a.Commit {
		a.Reason, a.Command = begun.Error(), ends+", and then "+fmt.Sprintf("git -C %s merge --ff-only refs/remotes/polis/%s", api.ShellWord(p.Path), target)
		m.Log.Info("project left as it is", "op", "bring along", "path", p.Path, "err", begun)
		return a, nil
	}
	if err := a.forward(ctx, p, at, behind, keep, conv, changes, m.Log); err != nil {
		a.Reason = err.Error()
		a.Command = fmt.Sprintf("git -C %s merge --ff-only refs/remotes/polis/%s", api.ShellWord(p.Path), target)
		m.Log.Info("project left as it is", "op", "bring along", "path", p.Path, "err", err)
		return a, nil
	}
	failpoint.Hit("project:forward")
	a.Updated, a.Files = true, at.here
	return a, nil
}

// homeOf is the home of the project's owner; "" if it is not known.
func (m *Merger) homeOf(p *worktree.Project) string {
	if m.Home == nil {
		return ""
	}
	if home := m.Home(p.Owner.UID); filepath.IsAbs(home) {
		return home
	}
	return ""
}

// place is the state of a branch of the project.
type place struct {
	commit   string // empty if there is no such branch
	here     bool   // it is what the project has checked out
	worktree string // where it is checked out, if it is
}

// branchOf reads the state of a branch with one git command.
func branchOf(ctx context.Context, p *worktree.Project, branch string) (place, error) {
	ref := git.Branch(branch)
	out, err := p.Run(ctx, "for-each-ref", "--format=%(objectname) %(refname) %(HEAD)%(worktreepath)", ref)
	if err != nil {
		return place{}, err
	}
	commit, rest, _ := strings.Cut(strings.TrimSuffix(string(out), "\n"), " ")
	where, ok := strings.CutPrefix(rest, ref+" ")
	if !ok || !git.IsOID(commit) || where == "" {
		return place{}, nil
	}
	return place{commit: commit, here: where[0] == '*', worktree: where[1:]}, nil
}

// forward fast-forwards the project's branch; its error is the reason why not. keep is why the
// checkout must stay unchanged, if the branch is checked out; changes are what would change in
// it.
func (a *CheckoutUpdate) forward(ctx context.Context, p *worktree.Project, at place, behind bool, keep error, conv *conversions, changes []gate.Change, log *slog.Logger) error {
	switch {
	case at.commit == "":
		return fmt.Errorf("the project has no branch %s any more", a.Target)
	case at.commit == a.Commit:
		return nil
	case !behind:
		return fmt.Errorf("branch %s of the project has commits of its own", a.Target)
	case at.here && keep != nil:
		return keep
	case at.here:
		dir, err := p.Open()
		if err != nil {
			return err
		}
		defer dir.Close()
		was, err := remember(p, dir, conv, changes)
		if err != nil {
			return err
		}
		was.unkept = func(err error) {
			log.Warn("permissions of files in the project not kept", "op", "bring along", "path", p.Path, "err", err)
		}
		return was.fastForward(ctx, a.Commit)
	case at.worktree != "":
		return fmt.Errorf("branch %s is checked out in another worktree of the project, %s", a.Target, at.worktree)
	}
	return p.Update(ctx, git.Branch(a.Target), a.Commit, at.commit, "polis: merge")
}

// inside is a command in the project's working tree.
func inside(p *worktree.Project, args ...string) git.Cmd {
	return git.Cmd{Args: args, WorkTree: p.Path, Dir: p.Path}
}

// keeps returns why a checkout must stay unchanged; nil if it can be updated.
func keeps(ctx context.Context, p *worktree.Project, c *conversions) error {
	dirty, err := p.Do(ctx, c.inside(p, "status", "--porcelain", "-z", "--untracked-files=no", "--no-renames", "--ignore-submodules=dirty"))
	if err != nil {
		return err
	}
	var names []string
	for _, line := range git.SplitNUL(dirty) {
		if len(line) > 3 {
			names = append(names, line[3:])
		}
	}
	// Whether a file with a filter is changed only the filter knows. A merge that changes it is not checked
	// out, and git does not touch the others.
	found, err := c.filtered(ctx, p, names)
	if err != nil {
		return err
	}
	if n := len(names) - len(found); n > 0 {
		return fmt.Errorf("the checkout has uncommitted changes (%s)", api.Count(n, "file"))
	}
	return nil
}
