package merge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/daemon/merge/gate"
	"polis/internal/failpoint"
)

const (
	maxTries = 8           // merges of a target that moves meanwhile
	undoTime = time.Minute // to restore a checkout
	maxPaths = 1000        // paths in a Result or an error
)

// Locks takes the leases of refs in the daemon's table.
type Locks interface {
	// AcquireRef waits, within its own bound, for the lease of a full ref name.
	AcquireRef(ctx context.Context, ref string) (release func(), err error)
}

// Merger merges in one workspace. A daemon has one Merger per workspace.
type Merger struct {
	Workspace *worktree.Workspace
	Locks     Locks // nil takes none
	Log       *slog.Logger
	// Charge has the git commands of a context charged to an agent; nil charges none.
	Charge func(ctx context.Context, agent string) context.Context

	// Home returns the home of a user, whose configuration of git applies to the project; nil knows none.
	Home func(uid uint32) string
	// Identity returns the configured identity of merges and reverts; nil, or what is empty in it, is the one of the
	// project's owner.
	Identity func() git.Person

	once sync.Once
	turn chan struct{} // one token: one merge at a time
}

// Request is what to merge.
type Request struct {
	Agent  string
	Branch string // the agent's branch, short
	// Commit is what is merged in place of the branch's commit, "" for that: the commit of a detached HEAD.
	Commit string
	// Elsewhere is what the agent has committed and the merge does not contain.
	Elsewhere []api.BranchWork
	Target    string // the workspace's target branch if empty
	// Message of the merge commit; one that names agent and branch if empty.
	Message string
	// Trailer is a line to add to the end of the message, "Polis-Agent: NAME", as
	// git-interpret-trailers(1) does; none if empty.
	Trailer string
	// DryRun computes the merge and moves nothing.
	DryRun bool
	// Rules are what the result is compared with; the zero value allows all.
	Rules gate.Rules
	// AcceptProtected is true if a person accepts changes of protected paths.
	AcceptProtected bool
	// Head is the commit the branch must be at; empty for any.
	Head string
	// Signed is a merge commit that a person signed, "" for none. MustSign refuses a merge without one.
	Signed   string
	MustSign bool
}

// Result is a merge that was made, or would be.
type Result struct {
	Commit string // the merge commit; empty for a dry run
	Tree   string
	Target string
	Branch string
	// Onto and Merged are its parents: where target and branch were.
	Onto, Merged string
	// Paths it changes in the target, at most 1000.
	Paths []string
	// Protected are those of them that a person has to accept, with the reason.
	Protected []gate.Finding
	// Later counts, for a revert, the merges made after the reverted one.
	Later int
}

// one waits for this workspace's turn and for the target's lease.
func (m *Merger) one(ctx context.Context, target string) (func(), error) {
	m.once.Do(func() {
		m.turn = make(chan struct{}, 1)
		if m.Log == nil {
			m.Log = slog.New(slog.DiscardHandler)
		}
	})
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, api.Errorf(api.CodeTimeout, "wait for the merges before this one: %w", ctx.Err())
	}
	done := func() { <-m.turn }
	if m.Locks == nil {
		return done, nil
	}
	release, err := m.Locks.AcquireRef(ctx, git.Branch(target))
	if err != nil {
		done()
		return nil, err
	}
	return func() { release(); done() }, nil
}

// target is the branch a request goes to.
func (m *Merger) target(ctx context.Context, name string) (string, error) {
	main, err := m.Workspace.Target(ctx)
	if err != nil || name == "" || name == main {
		return main, err
	}
	if err := git.CheckBranch(name); err != nil {
		return "", api.Errorf(api.CodeBadRequest, "target: %w", err)
	}
	return name, nil
}

// Merge merges a branch into the target. A conflict is MERGE_CONFLICT with the
// paths in Details["paths"]; a target that has everything is NOTHING_TO_MERGE.
func (m *Merger) Merge(ctx context.Context, req Request) (Result, error) {
	if err := git.CheckBranch(req.Branch); err != nil {
		return Result{}, api.Errorf(api.CodeBadRequest, "%w", err)
	}
	target, err := m.target(ctx, req.Target)
	if err != nil {
		return Result{}, err
	}
	if req.Branch == target {
		return Result{}, api.Errorf(api.CodeNothingToMerge, "branch %s is the target itself", target)
	}
	done, err := m.one(ctx, target)
	if err != nil {
		return Result{}, err
	}
	defer done()
	// The user's own commits on the target come first, or both would diverge.
	_, who, err := m.sync(ctx, target)
	if err != nil {
		return Result{}, err
	}
	var res Result
	err = m.retry(ctx, target, func(onto string) (string, error) {
		var err error
		res, err = m.prepare(ctx, req, target, onto)
		if err != nil {
			return "", err
		}
		if req.DryRun {
			return "", nil
		}
		err = m.commit(ctx, req, who, &res)
		return res.Commit, err
	})
	if err != nil {
		return Result{}, err
	}
	if !req.DryRun {
		m.Log.Info("branch merged", "agent", req.Agent, "op", "merge", "path", git.Branch(target))
	}
	return res, nil
}

// DryRun returns what Merge would do, with the same errors, and moves nothing.
func (m *Merger) DryRun(ctx context.Context, req Request) (Result, error) {
	req.DryRun = true
	return m.Merge(ctx, req)
}

// prepare computes a merge on top of the commit onto.
func (m *Merger) prepare(ctx context.Context, req Request, target, onto string) (Result, error) {
	bare := m.Workspace.Bare()
	res := Result{Target: target, Branch: req.Branch, Onto: onto}
	var err error
	if res.Merged, err = m.tip(ctx, cmp.Or(req.Commit, req.Branch)); err != nil {
		return res, err
	}
	if req.Head != "" && res.Merged != req.Head {
		return res, api.Errorf(api.CodeRefConflict, "branch %s is at %.12s, not at %.12s", req.Branch, res.Merged, req.Head).
			WithHint("the branch has moved since: polisctl merge %s --dry-run shows what it holds now", req.Agent)
	}
	// Starting git is most of the cost, and the three are independent: a merge that the rules
	// refuse leaves only unreferenced objects.
	var got merged
	err = inOrder(func() error {
		return m.anything(ctx, req, target, res)
	}, func() error {
		return m.CheckTrees(ctx, req.Branch, res.Merged, res.Onto)
	}, func() (err error) {
		got, err = mergeTree(ctx, bare, onto, res.Merged)
		return err
	})
	if err != nil {
		return res, err
	}
	if len(got.conflicts) > 0 {
		return res, conflict(got, req.Branch, target)
	}
	res.Tree = got.tree
	return res, m.judge(ctx, req, &res)
}

// inOrder runs functions in parallel. It returns the error of the first in the list that has one.
func inOrder(do ...func() error) error {
	errs := make([]error, len(do))
	var all sync.WaitGroup
	for i, f := range do {
		all.Go(func() { errs[i] = f() })
	}
	all.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func conflict(got merged, branch, target string) error {
	paths := got.conflicts[:min(len(got.conflicts), maxPaths)]
	return api.Errorf(api.CodeMergeConflict, "%s and %s change the same lines of %s: %s", branch, target, api.Count(len(got.conflicts), "file"), name(paths, 3)).
		WithHint("in the agent: git merge %s, resolve, commit; then merge again", target).
		With("paths", paths).With("messages", got.messages)
}

// name writes a few paths, quoted: they can have any bytes.
func name(paths []string, n int) string {
	var b strings.Builder
	for i, p := range paths {
		if i == n {
			fmt.Fprintf(&b, ", and %d more", len(paths)-n)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%q", api.Shorten(p, 120))
	}
	return b.String()
}

// retry moves the target to what build makes of its present commit, and again if another change
// moves it meanwhile, at most maxTries times. A build that returns no commit moves nothing.
func (m *Merger) retry(ctx context.Context, target string, build func(onto string) (string, error)) error {
	bare, ref := m.Workspace.Bare(), git.Branch(target)
	var last error
	for try := range maxTries {
		if try > 0 {
			if err := Backoff(ctx, try); err != nil {
				return api.Errorf(api.CodeTimeout, "move branch %s: %w", target, err)
			}
		}
		onto, err := bare.Ref(ctx, ref)
		if errors.Is(err, git.ErrNotFound) {
			return api.Errorf(api.CodeNotFound, "there is no branch %s to merge to", target)
		} else if err != nil {
			return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", target, err)
		}
		commit, err := build(onto)
		if err != nil || commit == "" {
			return err
		}
		if last = bare.Update(ctx, ref, commit, onto, "polis: merge"); last == nil {
			failpoint.Hit("target:moved")
			return nil
		}
		if !errors.Is(last, git.ErrRefMoved) && !lockFile(last) {
			break
		}
	}
	return api.Errorf(api.CodeRefConflict, "move branch %s: %w", target, last).
		WithHint("something else keeps changing it; if a *.lock file was left in the shared repository by a crash, remove it")
}
