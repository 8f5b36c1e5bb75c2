package merge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

const (
	tryTime  = 20 * time.Second // for one git merge-tree and its batch
	tryBatch = 64               // merges per batch
)

// Pair is two commits whose merge is to be tried.
type Pair struct{ Ours, Theirs string }

// Tried is the result of a trial merge.
type Tried struct {
	// Paths in conflict, sorted, at most 1000 of Total. None: it merges.
	Paths []string
	Total int
	// Err is why git could not merge, such as no common ancestor.
	Err error
}

// Try merges every pair and keeps nothing: the objects go to a directory of their own below
// scratch, which is removed, and the repository's objects are only read. It moves no ref and
// takes no lock.
//
// The answers are in the order of the pairs. An error means that there is none.
func Try(ctx context.Context, bare git.Repo, scratch string, pairs []Pair) (got []Tried, err error) {
	if len(pairs) == 0 {
		return nil, nil
	}
	for _, p := range pairs {
		if !git.IsOID(p.Ours) || !git.IsOID(p.Theirs) {
			return nil, fmt.Errorf("try a merge: %q and %q are not two commits", p.Ours, p.Theirs)
		}
	}
	dir, err := os.MkdirTemp(scratch, "objects-")
	if err != nil {
		return nil, fmt.Errorf("try merges: %w", err)
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(dir)) }()
	if err := os.Lchown(dir, int(bare.Runner.UID), int(bare.Runner.GID)); err != nil {
		return nil, fmt.Errorf("try merges: %w", err)
	}
	for batch := range slices.Chunk(pairs, tryBatch) {
		got = append(got, tryAll(ctx, bare, dir, batch)...)
	}
	return got, nil
}

// tryAll merges all with one git; if that fails, bisection finds the pair that causes it.
func tryAll(ctx context.Context, bare git.Repo, dir string, pairs []Pair) []Tried {
	var in bytes.Buffer
	for _, p := range pairs {
		fmt.Fprintf(&in, "%s %s\n", p.Ours, p.Theirs)
	}
	out, err := bare.Do(ctx, git.Cmd{Args: []string{"merge-tree", "--write-tree", "--stdin", "--name-only", "--messages"}, Stdin: &in, Timeout: tryTime,
		Env: []string{"GIT_OBJECT_DIRECTORY=" + dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + alternate(filepath.Join(bare.Dir, "objects"))}})
	var got []Tried
	if err == nil {
		got, err = parseTries(out, len(pairs))
	}
	for i := range got {
		all := len(got[i].Paths) == got[i].Total
		if got[i].Paths = names(got[i].Paths, pairs[i]); all {
			got[i].Total = len(got[i].Paths)
		}
	}
	switch {
	case err == nil:
		return got
	case len(pairs) == 1 || ctx.Err() != nil:
		return slices.Repeat([]Tried{{Err: fmt.Errorf("try the merge: %w", err)}}, len(pairs))
	}
	half := len(pairs) / 2
	return append(tryAll(ctx, bare, dir, pairs[:half]), tryAll(ctx, bare, dir, pairs[half:])...)
}

// names restores the name of a file that is in the way of a directory: git puts it beside the
// directory, under its name and the commit's.
func names(paths []string, p Pair) []string {
	changed := false
	for i, path := range paths {
		for _, side := range []string{p.Ours, p.Theirs} {
			if at := strings.LastIndex(path, "~"+side); at > 0 {
				paths[i], changed = path[:at], true
			}
		}
	}
	if changed {
		slices.Sort(paths)
		paths = slices.Compact(paths)
	}
	return paths
}

// alternate quotes a directory for a list that is separated by colons.
func alternate(dir string) string {
	if !strings.ContainsAny(dir, ":\"\n") {
		return dir
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(dir) + `"`
}

// parseTries reads git-merge-tree(1) --stdin: per merge a status, what a
// single merge prints, and an empty field at the end.
func parseTries(out []byte, n int) ([]Tried, error) {
	got := make([]Tried, 0, n)
	for range n {
		status, rest, ok := bytes.Cut(out, []byte{0})
		if !ok || len(status) != 1 || status[0] != '0' && status[0] != '1' {
			return nil, errMergeTree
		}
		end, ok := endOfTry(rest)
		if !ok {
			return nil, errMergeTree
		}
		m, err := parseMergeTree(rest[:end], status[0] == '0')
		if err != nil {
			return nil, err
		}
		slices.Sort(m.conflicts)
		paths := slices.Compact(m.conflicts)
		got = append(got, Tried{Paths: paths[:min(len(paths), maxPaths)], Total: len(paths)})
		out = rest[end+1:]
	}
	if len(out) > 0 {
		return nil, errMergeTree
	}
	return got, nil
}

// endOfTry finds the empty field behind the messages of the first merge in b.
func endOfTry(b []byte) (int, bool) {
	at := 0
	next := func() (string, bool) {
		field, _, ok := bytes.Cut(b[at:], []byte{0})
		if ok {
			at += len(field) + 1
		}
		return string(field), ok
	}
	for { // the tree and the names
		if field, ok := next(); !ok {
			return 0, false
		} else if field == "" {
			break
		}
	}
	for {
		begin := at
		count, ok := next()
		if !ok {
			return 0, false
		}
		if count == "" {
			return begin, true
		}
		n := 0
		for _, c := range count {
			if c < '0' || c > '9' || n > len(b) {
				return 0, false
			}
			n = n*10 + int(c-'0')
		}
		for range n + 2 { // paths, kind, message
			if _, ok := next(); !ok {
				return 0, false
			}
		}
	}
}
