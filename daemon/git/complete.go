package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"polis/daemon/host/cage"
)

// completeTimeout bounds the walk over what a ref reaches. The walk covers the whole history only
// if the repository had none of it before.
const completeTimeout = 2 * time.Minute

// completeLimits allow a walk over some ten million objects.
var completeLimits = cage.Limits{AddressSpace: 4 << 30, FileSize: 1, CPU: 2 * time.Minute}

// Complete checks that the named objects, and everything that they reach, are in the repository. A
// name with "^{commit}" must name a commit. What the present refs reach is not checked again, as
// in git-receive-pack(1). The HEADs of worktrees do not count as refs: agents can write any value
// there. If revs contain "^NAME", what NAME reaches is assumed to exist, in place of what the refs
// reach. Complete returns ErrNotFound if an object is missing.
func (r Repo) Complete(ctx context.Context, revs ...string) error {
	_, err := r.reach(ctx, false, revs)
	return err
}

// reach implements Complete. If list is set it returns the ids of the objects that it read.
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
	// A ref that is broken already would make every check fail. The walk skips it, for which git
	// must skip its objects too.
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
