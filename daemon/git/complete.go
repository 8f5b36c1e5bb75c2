package git

import (
	"context"
	"fmt"
	"time"
)

// completeTimeout bounds looking at what a ref leads to. It is the whole
// history only where none of it was there before.
const completeTimeout = 2 * time.Minute

// completeLimits let git walk some ten million objects.
var completeLimits = Limits{AddressSpace: 4 << 30, FileSize: 0, CPU: 2 * time.Minute}

// Complete checks that the object of that name is in the repository, with
// everything it leads to, and that it is a commit if it must be one. What the
// refs there are lead to is not looked at again: git-receive-pack(1) does the same.
// HEADs of worktrees do not count, for agents write what they like there.
// ErrNotFound says that something is missing.
func (r Repo) Complete(ctx context.Context, oid string, commit bool) error {
	rev := oid
	if commit {
		rev += "^{commit}"
	}
	walk := func(more ...string) error {
		_, err := r.Do(ctx, Cmd{Args: append([]string{"rev-list", "--single-worktree", "--objects", "--quiet"}, append(more, rev, "--not", "--all")...),
			Limits: &completeLimits, Timeout: completeTimeout})
		return err
	}
	err := walk()
	if code, ok := ExitCode(err); !ok || code <= 0 {
		return err
	}
	// A ref that is broken already would fail every other one: it is passed
	// over, for which git must pass over the object in question, too.
	if _, err := r.Run(ctx, "cat-file", "-e", rev); err != nil {
		if code, ok := ExitCode(err); ok && code > 0 {
			return fmt.Errorf("%s: %w", shorten(rev), ErrNotFound)
		}
		return err
	}
	err = walk("--ignore-missing")
	if code, ok := ExitCode(err); ok && code > 0 {
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
}
