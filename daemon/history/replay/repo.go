package replay

import (
	"context"
	"errors"

	"polis/daemon/git"
)

// Repo is the Commits of a repository.
type Repo struct{ git.Repo }

// Tree implements Commits.
func (r Repo) Tree(ctx context.Context, commit string) (string, error) {
	if !git.IsOID(commit) {
		return "", nil
	}
	ids, err := r.Resolve(ctx, commit+"^{tree}")
	if err != nil || ids[0] == "" {
		return "", err
	}
	err = r.Complete(ctx, ids[0])
	if errors.Is(err, git.ErrNotFound) {
		return "", nil
	}
	return ids[0], err
}

// History implements Commits. A branch that does not exist has none.
func (r Repo) History(ctx context.Context, branch string, each func(commit string)) error {
	tip, err := r.Commit(ctx, git.Branch(branch))
	if errors.Is(err, git.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Lines(ctx, git.Cmd{Args: []string{"rev-list", "--end-of-options", tip}}, each)
}
