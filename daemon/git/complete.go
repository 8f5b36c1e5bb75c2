package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"polis/daemon/cage"
)

// completeTimeout bounds reading what a ref reaches. It is the whole history only if none of it
// was there before.
const completeTimeout = 2 * time.Minute

// completeLimits let git walk some ten million objects.
var completeLimits = cage.Limits{AddressSpace: 4 << 30, FileSize: 1, CPU: 2 * time.Minute}

// Complete checks that the objects of those names are in the repository, with
// everything they lead to; a name with "^{commit}" must be a commit's. What the
// refs there are lead to is not looked at again: git-receive-pack(1) does the same.
// HEADs of worktrees do not count, for agents write what they like there.
// With "^NAME" among them, what that leads to is taken to be there instead.
// ErrNotFound says that something is missing.
func (r Repo) Complete(ctx context.Context, revs ...string) error {
	_, err := r.reach(ctx, false, revs)
	return err
}

// reach is Complete, and returns the names of the objects it read if list is set.
func (r Repo) reach(ctx context.Context, list bool, revs []string) (ids []string, err error) {
	walk := func(args ...string) error {
		c := Cmd{Args: append([]string{"rev-list", "--single-worktree", "--objects", "--stdin"}, args...),
			Stdin: strings.NewReader(strings.Join(revs, "\n") + "\n"), Limits: &completeLimits, Timeout: completeTimeout}
		if !list {
			c.Args = append(c.Args, "--quiet")
			_, err := r.Do(ctx, c)
			return err
		}
		ids = nil
		return r.Lines(ctx, c, func(line string) {
			if id, _, _ := strings.Cut(line, " "); IsOID(id) {
				ids = append(ids, id)
			}
		})
	}
	if slices.ContainsFunc(revs, func(s string) bool { return strings.HasPrefix(s, "^") }) {
		err := walk()
		if code, ok := ExitCode(err); ok && code > 0 {
			return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
		}
		return ids, err
	}
	err = walk("--not", "--all")
	if code, ok := ExitCode(err); !ok || code <= 0 {
		return ids, err
	}
	// A ref that is broken already would fail every other one: it is skipped, for which git must
	// skip its objects, too.
	out, err := r.Do(ctx, Cmd{Args: []string{"cat-file", "--batch-check"}, Stdin: strings.NewReader(strings.Join(revs, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	for i, rev := range revs {
		if i >= len(lines) || len(strings.Fields(lines[i])) != 3 {
			return nil, fmt.Errorf("%s: %w", shorten(rev), ErrNotFound)
		}
	}
	err = walk("--ignore-missing", "--not", "--all")
	if code, ok := ExitCode(err); ok && code > 0 {
		return nil, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return ids, err
}
