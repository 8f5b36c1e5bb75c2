package git

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// maxIDs is the most ids that are kept in memory.
const maxIDs = 50_000_000

// Skeleton returns the commits, trees and tags that revs reach, and no blob, not even one that
// revs name. revs are as for Complete.
func (r Repo) Skeleton(ctx context.Context, revs []string) ([]string, error) {
	var ids []string
	c := Cmd{Args: []string{"rev-list", "--stdin", "--objects", "--filter=blob:none", "--filter-provided-objects", "--no-object-names"},
		Stdin: strings.NewReader(strings.Join(revs, "\n") + "\n"), Limits: &walkLimits, Timeout: walkTimeout}
	odd := 0
	err := r.Lines(ctx, c, func(line string) {
		if IsOID(line) && len(ids) < maxIDs {
			ids = append(ids, line)
		} else {
			odd++
		}
	})
	if err == nil && odd > 0 {
		err = fmt.Errorf("%w: %d lines of git rev-list are not ids, or too many", ErrTooLarge, odd)
	}
	if err != nil {
		return nil, fmt.Errorf("list commits and trees: %w", err)
	}
	return ids, nil
}

// Present returns the ids that are objects of the repository.
func (r Repo) Present(ctx context.Context, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var out []string
	c := Cmd{Args: []string{"cat-file", "--batch-check=%(objectname)"}, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")}
	err := r.Lines(ctx, c, func(line string) {
		if IsOID(line) {
			out = append(out, line)
		}
	})
	return out, err
}

// PackIn writes the objects ids into a pack below dir and returns the pack's path without its
// extension, or "" if there are no ids. dir belongs to the Runner's user and contains a directory
// "pack". The pack is complete: reading it needs no other object.
func (r Repo) PackIn(ctx context.Context, dir string, ids []string) (string, error) {
	if len(ids) == 0 {
		return "", nil
	}
	base := dir + "/pack/pack"
	from := r
	from.Alternates = append([]string{r.ObjectDir()}, r.Alternates...)
	from.Objects = dir
	out, err := from.Do(ctx, Cmd{Args: []string{"pack-objects", "-q", "--delta-base-offset", "--non-empty", base},
		Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"), Timeout: walkTimeout})
	if err != nil {
		return "", fmt.Errorf("pack objects: %w", err)
	}
	sum := strings.TrimSpace(string(out))
	if !IsOID(sum) {
		return "", errors.New("pack objects: git names no pack")
	}
	return base + "-" + sum, nil
}

// All returns every object of the repository's own directory and its alternates.
func (r Repo) All(ctx context.Context) ([]string, error) {
	var ids []string
	err := r.Lines(ctx, Cmd{Args: []string{"cat-file", "--batch-all-objects", "--unordered", "--batch-check=%(objectname)"}, Timeout: walkTimeout}, func(line string) {
		if IsOID(line) && len(ids) < maxIDs {
			ids = append(ids, line)
		}
	})
	return ids, err
}
