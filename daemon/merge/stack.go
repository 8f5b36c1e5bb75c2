package merge

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/failpoint"
)

// Stack is a list of merge commits that no ref points to yet: each on top of the one before, the
// first on top of the target. The top can be inspected and checked before Advance moves the
// target there.
type Stack struct {
	Target string
	Onto   string // where the target was
	Items  []Item // one per request, in their order
}

// Item is one request of a Stack. One with an error is not part of it.
type Item struct {
	Request Request
	Result  Result
	Err     error
}

// Stack merges the requests' branches on top of each other. It moves the target only to where the
// user's project has it. An error means that no stack was made.
func (m *Merger) Stack(ctx context.Context, reqs []Request) (Stack, error) {
	target, err := m.target(ctx, "")
	if err != nil {
		return Stack{}, err
	}
	s := Stack{Target: target, Items: make([]Item, len(reqs))}
	var who signature
	if s.Onto, who, err = m.synced(ctx, target); err != nil {
		return Stack{}, err
	}
	top := s.Onto
	for i, req := range reqs {
		s.Items[i] = m.put(ctx, req, who, target, top)
		if s.Items[i].Err == nil {
			top = s.Items[i].Result.Commit
		}
		if err := ctx.Err(); err != nil {
			return Stack{}, api.Errorf(api.CodeTimeout, "merge %d branches: %w", len(reqs), context.Cause(ctx))
		}
	}
	return s, nil
}

// synced brings the user's own commits in and returns the target's commit then.
func (m *Merger) synced(ctx context.Context, target string) (string, signature, error) {
	done, err := m.one(ctx, target)
	if err != nil {
		return "", signature{}, err
	}
	defer done()
	return m.sync(ctx, target)
}

// put makes one merge on top of others.
func (m *Merger) put(ctx context.Context, req Request, who signature, target, top string) Item {
	it := Item{Request: req}
	if it.Err = git.CheckBranch(req.Branch); it.Err != nil {
		it.Err = api.Errorf(api.CodeBadRequest, "%w", it.Err)
		return it
	}
	if req.Branch == target {
		it.Err = api.Errorf(api.CodeNothingToMerge, "branch %s is the target itself", target)
		return it
	}
	if m.Charge != nil {
		ctx = m.Charge(ctx, req.Agent)
	}
	if it.Result, it.Err = m.prepare(ctx, req, target, top); it.Err == nil {
		it.Err = m.conclude(ctx, req, who, &it.Result)
	}
	return it
}

// message is that of the merge commit of a request, with these trailers.
func (m *Merger) message(ctx context.Context, req Request, target string, lines []string) (string, error) {
	if strings.TrimSpace(req.Message) != "" {
		return m.trailer(ctx, req.Message, lines)
	}
	// git is not needed to find the trailers of our own text
	return fmt.Sprintf("Merge branch '%s' into %s\n", req.Branch, target) + paragraph(lines), nil
}

// bringLFS copies the LFS objects that a merge names to the project, before the target moves: they must not end with the
// agent.
func (m *Merger) bringLFS(ctx context.Context, req Request, res *Result) error {
	if _, err := m.Workspace.BringLFS(ctx, req.Agent, res.Merged, "^"+res.Onto); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "copy the LFS objects of branch %s to the project: %w", req.Branch, err).
			WithHint("polisctl agents exec %s -- git lfs fsck names damaged objects; the target did not move", req.Agent)
	}
	return nil
}

// commit makes the merge commit of a result.
func (m *Merger) commit(ctx context.Context, req Request, who signature, res *Result) error {
	message, err := m.message(ctx, req, res.Target, who.trailers(req.Trailer))
	if err != nil {
		return err
	}
	res.Commit, err = m.Workspace.Bare().CommitTree(ctx, res.Tree, []string{res.Onto, res.Merged}, message, who.Idents)
	if err != nil {
		return api.Errorf(api.CodeInternal, "make the merge commit: %w", err)
	}
	return nil
}

// Advance moves the target to a commit of the stack, in one step, if it still is where the stack
// begins. Otherwise the error is REF_CONFLICT and wraps git.ErrRefMoved: make another stack.
func (m *Merger) Advance(ctx context.Context, s Stack, commit string) error {
	done, err := m.one(ctx, s.Target)
	if err != nil {
		return err
	}
	defer done()
	ref := git.Branch(s.Target)
	for try := 0; ; try++ {
		err := m.Workspace.Bare().Update(ctx, ref, commit, s.Onto, "polis: merge")
		if err == nil {
			failpoint.Hit("target:moved")
			m.Log.Info("target moved", "op", "merge", "path", ref)
			return nil
		}
		if errors.Is(err, git.ErrRefMoved) || try == maxTries || !lockFile(err) {
			return api.Errorf(api.CodeRefConflict, "move branch %s: %w", s.Target, err).
				WithHint("something else keeps changing it; if a *.lock file was left in the shared repository by a crash, remove it")
		}
		if err := Backoff(ctx, try+1); err != nil {
			return api.Errorf(api.CodeTimeout, "move branch %s: %w", s.Target, err)
		}
	}
}

func lockFile(err error) bool {
	var exit *git.ExitError
	return errors.As(err, &exit) && strings.Contains(exit.Stderr, ".lock")
}

// searched bounds how far back Merged searches for a merge.
const searched = "5000"

// Merged finds the merge that brought a branch, at its present commit, to the target; empty if
// there is none. It finds merges whose daemon died before it recorded them.
//
// branch can be a commit.
func (m *Merger) Merged(ctx context.Context, branch string) (string, error) {
	target, err := m.target(ctx, "")
	if err != nil {
		return "", err
	}
	bare := m.Workspace.Bare()
	tip, err := m.tip(ctx, branch)
	if err != nil {
		return "", err
	}
	out, err := bare.Run(ctx, "rev-list", "--first-parent", "--min-parents=2", "--parents", "-n", searched, git.Branch(target))
	if err != nil {
		return "", api.Errorf(api.CodeRepoCorrupt, "find the merge of %s: %w", branch, err)
	}
	for line := range strings.Lines(string(out)) {
		if ids := strings.Fields(line); len(ids) == 3 && ids[2] == tip {
			return ids[0], nil
		}
	}
	return "", nil
}
