package remote

import (
	"context"
	"errors"

	"polis/daemon/git"
)

// DefaultHas reports whether the default branch of the remote called name has all of the commits
// now. It fetches the branch if its commit is not here yet. A commit that cannot be read is one that
// the branch does not have.
func (b *Broker) DefaultHas(ctx context.Context, name string, commits []string) (bool, error) {
	r, a, done, err := b.open(ctx, name)
	defer done()
	if err != nil {
		return false, err
	}
	res, err := b.list(ctx, r, a)
	if err != nil {
		return false, err
	}
	tip := ""
	for _, ref := range res.Refs {
		if ref.Name == res.Head {
			tip = ref.Commit
		}
	}
	if tip == "" {
		return false, nil // it is empty, or its HEAD is no branch
	}
	bare := b.Workspace.Bare()
	if _, err := bare.Commit(ctx, tip); errors.Is(err, git.ErrNotFound) {
		if err := b.fetch(ctx, name, a, func(git.Step) {}); err != nil {
			return false, failed(r, "fetch from", err, a.secrets...)
		}
	} else if err != nil {
		return false, err
	}
	for _, c := range commits {
		if c == tip {
			continue
		}
		switch has, err := bare.IsAncestor(ctx, c, tip); {
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		case err != nil || !has:
			return false, nil //nolint:nilerr // only this agent has it
		}
	}
	return true, nil
}
