package merge

import (
	"bytes"
	"context"
	"errors"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// merged is the output of git merge-tree.
type merged struct {
	tree      string
	conflicts []string
	messages  []string // why, per conflict, in git's words
}

// mergeTree merges two commits without a checkout.
func mergeTree(ctx context.Context, bare git.Repo, ours, theirs string) (merged, error) {
	out, err := bare.Run(ctx, "merge-tree", "--write-tree", "-z", "--name-only", "--messages", ours, theirs)
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) {
		var exit *git.ExitError
		if errors.As(err, &exit) && strings.Contains(exit.Stderr, "unrelated histories") {
			return merged{}, api.Errorf(api.CodeRefConflict, "the branches have no commit in common: %w", err).
				WithHint("a branch to merge must start from the target branch")
		}
		return merged{}, api.Errorf(api.CodeInternal, "compute the merge: %w", err)
	}
	got, parse := parseMergeTree(out, err != nil)
	if parse != nil {
		return merged{}, api.Errorf(api.CodeInternal, "compute the merge: %w", parse)
	}
	return got, nil
}

var errMergeTree = errors.New("git merge-tree: cannot read its answer")

// parseMergeTree reads git-merge-tree(1) -z --name-only --messages: the tree, the
// conflicting names, an empty field, and records of a count, that many
// paths, a type and a message.
func parseMergeTree(out []byte, conflicted bool) (merged, error) {
	tree, rest, ok := bytes.Cut(out, []byte{0})
	m := merged{tree: string(tree)}
	if !ok || !git.IsOID(m.tree) {
		return merged{}, errMergeTree
	}
	names, rest := cutEmpty(rest)
	for _, name := range names {
		if len(m.conflicts) == 0 || m.conflicts[len(m.conflicts)-1] != name {
			m.conflicts = append(m.conflicts, name)
		}
	}
	if !conflicted {
		if len(m.conflicts) > 0 {
			return merged{}, errMergeTree
		}
		return m, nil
	}
	fields := git.SplitNUL(rest)
	for i := 0; i < len(fields); {
		n := 0
		for _, c := range fields[i] {
			if c < '0' || c > '9' || n > len(fields) {
				return merged{}, errMergeTree
			}
			n = n*10 + int(c-'0')
		}
		kind := i + 1 + n
		if fields[i] == "" || kind+1 >= len(fields) {
			return merged{}, errMergeTree
		}
		if strings.HasPrefix(fields[kind], "CONFLICT") {
			if len(m.messages) < maxPaths {
				m.messages = append(m.messages, strings.TrimSpace(fields[kind+1]))
			}
			// Some conflicts (a renamed directory) leave no unmerged entry.
			if len(names) == 0 {
				m.conflicts = append(m.conflicts, fields[i+1:kind]...)
			}
		}
		i = kind + 2
	}
	if len(m.conflicts) == 0 {
		return merged{}, errMergeTree
	}
	return m, nil
}

// cutEmpty takes NUL-ended fields up to an empty one.
func cutEmpty(b []byte) (fields []string, rest []byte) {
	for len(b) > 0 {
		field, after, _ := bytes.Cut(b, []byte{0})
		if len(field) == 0 {
			return fields, after
		}
		fields, b = append(fields, string(field)), after
	}
	return fields, nil
}
