package git

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Change is one difference between two trees.
type Change struct {
	// Status is 'A' (added), 'D' (deleted), 'M' (other content or mode) or 'T' (another kind).
	Status byte
	Path   string
	// ID is the object of the second tree; all zeros if it has none.
	ID string
}

// Changes returns the differences between two trees or commits, sorted as git sorts paths.
func (r Repo) Changes(ctx context.Context, a, b string) ([]Change, error) {
	out, err := r.Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", "--end-of-options", a, b)
	if err != nil {
		return nil, err
	}
	words := SplitNUL(out)
	if len(words)%2 != 0 {
		return nil, fmt.Errorf("git diff-tree: %d words", len(words))
	}
	list := make([]Change, 0, len(words)/2)
	for i := 0; i < len(words); i += 2 {
		// ":<mode> <mode> <id> <id> <status>"
		f := strings.Fields(words[i])
		if len(f) != 5 || len(f[4]) != 1 {
			return nil, fmt.Errorf("git diff-tree: cannot read %q", shorten(words[i]))
		}
		list = append(list, Change{Status: f[4][0], Path: words[i+1], ID: f[3]})
	}
	return list, nil
}

// Sizes returns the size of several objects in bytes, with one command. That of an object that is
// missing is 0.
func (r Repo) Sizes(ctx context.Context, ids []string) ([]int64, error) {
	for _, id := range ids {
		if !IsOID(id) {
			return nil, fmt.Errorf("%q is no object id", shorten(id))
		}
	}
	out, err := r.Do(ctx, Cmd{Args: []string{"cat-file", "--batch-check=%(objectsize)"}, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return nil, err
	}
	lines := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(lines) != len(ids) {
		return nil, fmt.Errorf("git cat-file --batch-check: %d lines for %d objects", len(lines), len(ids))
	}
	sizes := make([]int64, len(ids))
	for i, line := range lines {
		sizes[i], _ = strconv.ParseInt(line, 10, 64) //nolint:errcheck // "missing"
	}
	return sizes, nil
}
