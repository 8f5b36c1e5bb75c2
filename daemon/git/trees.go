package git

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
)

// maxTree bounds one tree object, in bytes: some hundred thousand names.
const maxTree = 32 << 20

// ErrBadTree says that a tree holds a name that git refuses to check out
// (".git", ".."), or is no proper tree.
var ErrBadTree = errors.New("no worktree can be made of it")

// CheckTrees looks at every tree that commit leads to and base does not: git
// stores and merges such that no git will check out, and forges refuse to take.
func (r Repo) CheckTrees(ctx context.Context, commit, base string) error {
	group, ctx := errgroup.WithContext(ctx)
	names, toCat := io.Pipe()
	objects, toCheck := io.Pipe()
	group.Go(func() error {
		_, err := r.Do(ctx, Cmd{Args: []string{"rev-list", "--single-worktree", "--objects", "--no-object-names", "--filter=blob:none", "--end-of-options", commit, "^" + base},
			Stdout: toCat, Timeout: copyTimeout})
		toCat.CloseWithError(err) // nil is the end
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
	if bad != nil {
		return bad // what the others say follows from it
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
		if size > maxTree {
			return fmt.Errorf("tree %s: %w: it has %d bytes, more than %d", f[0], ErrBadTree, size, maxTree)
		}
		body := make([]byte, size+1) // and the newline behind it
		if _, err := io.ReadFull(in, body); err != nil {
			return fmt.Errorf("git cat-file: %w", err)
		}
		if err := checkTree(body[:size], len(f[0])/2); err != nil {
			return fmt.Errorf("tree %s: %w", f[0], err)
		}
	}
}

// checkTree reads one tree: "MODE NAME\0HASH" without end (gitformat-tree).
func checkTree(b []byte, hashLen int) error {
	last, lastDir := "", false
	for n := 0; len(b) > 0; n++ {
		head, rest, ok := bytes.Cut(b, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		if !ok || !ok2 || len(rest) < hashLen {
			return fmt.Errorf("%w: entry %d cannot be read", ErrBadTree, n+1)
		}
		dir := false
		switch strings.TrimLeft(mode, "0") { // old programs wrote zeros before
		case "40000":
			dir = true
		case "100644", "100755", "100664", "120000", "160000":
		default:
			return fmt.Errorf("%w: %q has the mode %q", ErrBadTree, shorten(name), shorten(mode))
		}
		if badName(name) || mode == "120000" && modulesFile(name) {
			return fmt.Errorf("%w: it has an entry %q", ErrBadTree, shorten(name))
		}
		if n > 0 && order(last, lastDir) >= order(name, dir) || n > 0 && name == last {
			return fmt.Errorf("%w: %q is out of order", ErrBadTree, shorten(name))
		}
		last, lastDir, b = name, dir, rest[hashLen:]
	}
	return nil
}

// order is what git sorts a tree's entries by: a directory as if it ended in "/".
func order(name string, dir bool) string {
	if dir {
		return name + "/"
	}
	return name
}

// badName says that git's verify_path (read-cache.c) refuses a name on every
// system that polis or a clone of its work may run on.
func badName(name string) bool {
	return name == "" || name == "." || name == ".." || strings.Contains(name, "/") || strings.EqualFold(name, ".git") || ntfsGit(name)
}

// ntfsGit says that NTFS takes a name for .git: is_ntfs_dotgit of git's path.c.
func ntfsGit(name string) bool {
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		part = strings.TrimRight(part, " .")
		if strings.EqualFold(part, ".git") || strings.EqualFold(part, "git~1") {
			return true
		}
	}
	return false
}

// modulesFile says that a name stands for .gitmodules, which git takes no link
// for: is_ntfs_dotgitmodules of the same file.
func modulesFile(name string) bool {
	name, _, _ = strings.Cut(name, ":")
	name = strings.ToLower(strings.TrimRight(name, " ."))
	return name == ".gitmodules" || strings.HasPrefix(name, "gitmod~") || strings.HasPrefix(name, "gi7eba~")
}
