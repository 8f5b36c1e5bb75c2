package worktree

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/lfs"
)

// pointersIn returns the LFS pointers among blobs of the shared repository.
func (w *Workspace) pointersIn(ctx context.Context, ids map[string]bool) ([]lfs.Pointer, error) {
	found, err := w.pointersOf(ctx, w.Bare(), ids)
	return slices.Collect(maps.Values(found)), err
}

// pointersOf returns the LFS pointers among blobs of a repository, by the ids of the blobs.
func (w *Workspace) pointersOf(ctx context.Context, repo git.Repo, ids map[string]bool) (map[string]lfs.Pointer, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var all strings.Builder
	for id := range ids {
		all.WriteString(id + "\n")
	}
	var small []string
	err := repo.Lines(ctx, git.Cmd{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype) %(objectsize)"}, Stdin: strings.NewReader(all.String())}, func(line string) {
		f := strings.Fields(line)
		if len(f) != 3 || f[1] != "blob" {
			return
		}
		if n, err := strconv.Atoi(f[2]); err == nil && n >= lfs.MinPointer && n <= lfs.MaxPointer {
			small = append(small, f[0])
		}
	})
	if err != nil {
		return nil, fmt.Errorf("read the sizes of files: %w", err)
	}
	if len(small) > maxPointers {
		return nil, fmt.Errorf("there are more than %d files that can be pointers of Git LFS", maxPointers)
	}
	slices.Sort(small)
	return readPointers(ctx, repo, small)
}

// readPointers reads small blobs.
func readPointers(ctx context.Context, repo git.Repo, ids []string) (map[string]lfs.Pointer, error) {
	found := map[string]lfs.Pointer{}
	if len(ids) == 0 {
		return found, nil
	}
	out, in := io.Pipe()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := repo.Do(ctx, git.Cmd{Args: []string{"cat-file", "--batch"}, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"), Stdout: in})
		in.CloseWithError(err)
		return err
	})
	group.Go(func() error {
		src := bufio.NewReader(out)
		for _, id := range ids {
			text, err := readBlob(src)
			if err != nil {
				out.CloseWithError(err)
				return err
			}
			if p, ok := lfs.Parse(text); ok {
				found[id] = p
			}
		}
		return out.CloseWithError(nil)
	})
	return found, group.Wait()
}

// readBlob reads one small blob from git-cat-file(1) --batch.
func readBlob(src *bufio.Reader) (string, error) {
	head, err := src.ReadString('\n')
	if err != nil {
		return "", err
	}
	f := strings.Fields(head)
	if len(f) != 3 {
		return "", fmt.Errorf("git cat-file: cannot read %q", api.Shorten(head, 80))
	}
	n, err := strconv.Atoi(f[2])
	if err != nil || n > lfs.MaxPointer {
		return "", fmt.Errorf("git cat-file: cannot read %q", api.Shorten(head, 80))
	}
	text := make([]byte, n+1) // and a newline
	if _, err := io.ReadFull(src, text); err != nil {
		return "", err
	}
	return string(bytes.TrimSuffix(text, []byte("\n"))), nil
}
