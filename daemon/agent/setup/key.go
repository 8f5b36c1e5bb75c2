package setup

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"

	"polis/fusefs/policy/glob"
)

// keyVersion changes when results of earlier versions of polis must not be used.
const keyVersion = 1

// Inputs is what a result depends on besides the input files.
type Inputs struct {
	// Run is the command, Patterns name the input files.
	Run      string
	Patterns []string
	// Environment is what else changes what the command makes: variables, mounts, the path of the
	// project, the operating system.
	Environment []string
}

// Files lists the files of a git tree with the ids of their content.
type Files func(ctx context.Context, tree string, each func(path, id string) error) error

// Key returns the key of a git tree, "" if it has none of the input files.
func (in Inputs) Key(ctx context.Context, tree string, files Files) (string, error) {
	patterns := make([]*glob.Pattern, 0, len(in.Patterns))
	for _, text := range in.Patterns {
		p, err := glob.Compile(text)
		if err != nil {
			return "", fmt.Errorf("input %q: %w", text, err)
		}
		patterns = append(patterns, p)
	}
	h := sha256.New()
	add(h, fmt.Sprint(keyVersion), in.Run)
	add(h, in.Environment...)
	found := false
	// git lists them in order.
	err := files(ctx, tree, func(path, id string) error {
		if slices.ContainsFunc(patterns, func(p *glob.Pattern) bool { return p.Covers(path, false) }) {
			found = true
			add(h, path, id)
		}
		return nil
	})
	if err != nil || !found {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// add hashes words so that no two lists of words are the same bytes.
func add(h hash.Hash, words ...string) {
	_, _ = fmt.Fprintf(h, "%d\n", len(words)) //nolint:errcheck // a hash never fails
	for _, w := range words {
		_, _ = fmt.Fprintf(h, "%d %s\n", len(w), w) //nolint:errcheck // as above
	}
}
