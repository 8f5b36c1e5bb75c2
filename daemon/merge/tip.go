package merge

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/git"
)

// tip is the commit of a branch, or the commit itself.
func (m *Merger) tip(ctx context.Context, rev string) (string, error) {
	if git.IsOID(rev) {
		return rev, nil
	}
	id, err := m.Workspace.Bare().Ref(ctx, git.Branch(rev))
	if errors.Is(err, git.ErrNotFound) {
		return "", api.Errorf(api.CodeNotFound, "there is no branch %s to merge", rev)
	}
	if err != nil {
		return "", api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", rev, err)
	}
	return id, nil
}

// anything rejects a branch that the target has.
func (m *Merger) anything(ctx context.Context, req Request, target string, res Result) error {
	done, err := m.Workspace.Bare().IsAncestor(ctx, res.Merged, res.Onto)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "compare %s with %s: %w", req.Branch, target, err)
	}
	if done && len(req.Elsewhere) > 0 {
		e := req.Elsewhere[0]
		return api.Errorf(api.CodeNothingToMerge, "%s has every commit of %s already; %s on %s", target, req.Branch, isAre(e.Commits), e.Where()).
			WithHint("%s", e.Run).With("elsewhere", req.Elsewhere)
	}
	if done {
		return api.Errorf(api.CodeNothingToMerge, "%s has every commit of %s already", target, req.Branch).
			WithHint("only commits are merged: are the changes committed?")
	}
	return nil
}

func isAre(n int) string {
	if n == 1 {
		return "1 commit is"
	}
	return api.Count(n, "commit") + " are"
}
