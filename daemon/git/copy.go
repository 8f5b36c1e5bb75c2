package git

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// copyTimeout bounds the copy of objects, which can be the first copy of a large repository.
const copyTimeout = 30 * time.Minute

// Copy copies the objects that want names, and all that they reach, from one repository to
// another. It sends a pack through a pipe: each side runs as its own user and reads only its own
// files. Objects that the receiver has are not sent. Copy changes no ref.
func Copy(ctx context.Context, from, to Repo, want []string) error {
	if len(want) == 0 {
		return nil
	}
	// An object that exists does not prove that the objects it reaches exist.
	err := connected(ctx, to, want)
	if _, refused := ExitCode(err); err == nil || !refused {
		return err
	}
	have, err := common(ctx, from, to)
	if err != nil {
		return err
	}
	return send(ctx, from, to, want, have)
}

// CopySince is Copy for callers that know a commit which both sides have completely, and that the
// receiver lacks what comes after it.
func CopySince(ctx context.Context, from, to Repo, want []string, since string) error {
	return send(ctx, from, to, want, []string{since})
}

// Send packs what want reaches and have does not, including objects that the receiver borrows from
// its alternates, and checks the result.
func Send(ctx context.Context, from, to Repo, want, have []string) error {
	return send(ctx, from, to, want, have)
}

func send(ctx context.Context, from, to Repo, want, have []string) error {
	var revs bytes.Buffer
	for _, oid := range want {
		fmt.Fprintln(&revs, oid)
	}
	for _, oid := range have {
		fmt.Fprintf(&revs, "^%s\n", oid)
	}
	if err := pipe(ctx, from, to, &revs, "--revs", "--thin"); err != nil {
		return err
	}
	return connected(ctx, to, want)
}

// pipe sends a pack of the objects that stdin names from one repository to another.
func pipe(ctx context.Context, from, to Repo, stdin io.Reader, args ...string) error {
	group, inner := errgroup.WithContext(ctx)
	r, w := io.Pipe()
	group.Go(func() error {
		_, err := from.Do(inner, Cmd{
			Args:  append([]string{"pack-objects", "--stdout", "--delta-base-offset", "-q"}, args...),
			Stdin: stdin, Stdout: w, Timeout: copyTimeout,
		})
		w.CloseWithError(err) // nil ends the pack
		return err
	})
	group.Go(func() error {
		_, err := to.Do(inner, Cmd{
			Args:  []string{"index-pack", "--stdin", "--fix-thin"},
			Stdin: r, Timeout: copyTimeout,
		})
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	if err := group.Wait(); err != nil {
		return fmt.Errorf("copy objects from %s to %s: %w", from.Dir, to.Dir, err)
	}
	return nil
}

// connected checks that all objects that want reaches exist, as git fetch does before it updates a
// ref.
func connected(ctx context.Context, to Repo, want []string) error {
	_, err := to.Do(ctx, Cmd{
		Args:  []string{"rev-list", "--single-worktree", "--objects", "--stdin", "--not", "--all", "--quiet"},
		Stdin: strings.NewReader(strings.Join(want, "\n") + "\n"), Timeout: copyTimeout,
	})
	if err != nil {
		return fmt.Errorf("check the commits copied to %s: %w", to.Dir, err)
	}
	return nil
}

// common returns ids that both sides have: the targets of the receiver's refs that the sender has
// too.
func common(ctx context.Context, from, to Repo) ([]string, error) {
	refs, err := to.Refs(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	var ids []string
	for _, oid := range refs {
		if !seen[oid] {
			seen[oid] = true
			ids = append(ids, oid)
		}
	}
	lack, err := missing(ctx, from, ids)
	if err != nil {
		return nil, err
	}
	for _, oid := range lack {
		seen[oid] = false
	}
	have := ids[:0]
	for _, oid := range ids {
		if seen[oid] {
			have = append(have, oid)
		}
	}
	return have, nil
}

// missing returns the ids that the repository does not have.
func missing(ctx context.Context, r Repo, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := r.Do(ctx, Cmd{
		Args:  []string{"cat-file", "--batch-check=%(objectname)"},
		Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"),
	})
	if err != nil {
		return nil, err
	}
	var lack []string
	for line := range strings.Lines(string(out)) {
		if oid, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), " missing"); ok {
			lack = append(lack, oid)
		}
	}
	return lack, nil
}
