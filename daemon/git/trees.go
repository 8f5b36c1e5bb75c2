package git

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"polis/fusefs/gitdir/fsck"
)

// ErrBadTree is returned for a tree with a name that git refuses to check out (".git", "..") or
// that no file system can store, and for a malformed tree.
var ErrBadTree = fsck.ErrTree

// CheckTrees checks every tree that commit reaches and base does not. Git stores and merges trees
// that no git checks out and that forges reject. The rules are those of package fsck.
func (r Repo) CheckTrees(ctx context.Context, commit, base string) error {
	group, ctx := errgroup.WithContext(ctx)
	names, toCat := io.Pipe()
	objects, toCheck := io.Pipe()
	group.Go(func() error {
		_, err := r.Do(ctx, Cmd{Args: []string{"rev-list", "--single-worktree", "--objects", "--no-object-names", "--filter=blob:none", "--end-of-options", commit, "^" + base},
			Stdout: toCat, Timeout: copyTimeout})
		toCat.CloseWithError(err) // nil ends the list
		return err
	})
	group.Go(func() error {
		_, err := r.Do(ctx, Cmd{Args: []string{"cat-file", "--batch", "--buffer"}, Stdin: names, Stdout: toCheck, Timeout: copyTimeout})
		names.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		toCheck.CloseWithError(err)
		return err
	})
	var bad error
	group.Go(func() error {
		bad = checkTrees(bufio.NewReaderSize(objects, 64<<10))
		objects.CloseWithError(errors.Join(bad, io.ErrClosedPipe))
		return bad
	})
	err := group.Wait()
	if errors.Is(bad, ErrBadTree) {
		return bad // the other errors follow from it
	}
	return err
}

// checkTrees reads the output of cat-file --batch.
func checkTrees(in *bufio.Reader) error {
	for {
		head, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) && head == "" {
			return nil
		}
		if err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		f := strings.Fields(head)
		var size int64
		if len(f) == 3 {
			size, err = strconv.ParseInt(f[2], 10, 64)
		}
		if len(f) != 3 || err != nil {
			return fmt.Errorf("git cat-file: cannot read %q", shorten(head))
		}
		if f[1] != "tree" {
			if _, err := io.CopyN(io.Discard, in, size+1); err != nil {
				return fmt.Errorf("git cat-file: %w", err)
			}
			continue
		}
		if size > fsck.MaxTree {
			return fmt.Errorf("tree %s: %w: it has %d bytes, more than %d", f[0], ErrBadTree, size, fsck.MaxTree)
		}
		if err := fsck.Tree(bufio.NewReader(io.LimitReader(in, size)), len(f[0])/2); err != nil {
			return fmt.Errorf("tree %s: %w", f[0], err)
		}
		if _, err := in.Discard(1); err != nil { // the newline behind it
			return fmt.Errorf("git cat-file: %w", err)
		}
	}
}
