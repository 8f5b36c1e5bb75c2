package snapshot

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// ErrInTheWay reports a file that is in no manifest where a restored one must be.
var ErrInTheWay = errors.New("a file that the snapshot does not cover is in the way")

// Step is one change of Apply. Exactly one of Remove and Make is set.
type Step struct {
	Remove *Entry
	Make   *Entry
	// Keep: the content is there already; only mode and attributes are set.
	Keep bool
}

// Path is the path that the step changes.
func (s *Step) Path() string {
	if s.Remove != nil {
		return s.Remove.Path
	}
	return s.Make.Path
}

// Plan returns the steps that make a tree in state now the one in state want, as far as paths select
// it: what is removed first, the deepest first, then what is made, parents first. A directory that a
// selected entry needs is made even if it is not selected. now and want must cover the same part of
// the tree.
func Plan(now, want *Manifest, paths []string) ([]Step, error) {
	for _, p := range paths {
		if now.Find(p) == nil && want.Find(p) == nil {
			return nil, fmt.Errorf("%q: %w", p, ErrNoPath)
		}
	}
	var remove, makes []Step
	made := map[string]bool{}
	for _, c := range Diff(now, want) {
		if !Within(c.Path, paths) {
			continue
		}
		if c.From != nil && (c.To == nil || c.How == Type || c.How == Modified && c.From.Kind == Link) {
			remove = append(remove, Step{Remove: c.From})
		}
		if c.To == nil {
			continue
		}
		for _, dir := range parents(c.Path) {
			if made[dir] {
				continue
			}
			made[dir] = true
			has, need := now.Find(dir), want.Find(dir)
			if Within(dir, paths) || need == nil {
				continue // it is in the list of changes, or covered by no manifest
			}
			switch {
			case has == nil:
				makes = append(makes, Step{Make: need})
			case has.Kind != Dir:
				return nil, fmt.Errorf("%q is no directory, and %q is restored: %w", dir, c.Path, ErrInTheWay)
			}
		}
		makes = append(makes, Step{Make: c.To, Keep: c.How == Mode || c.From != nil && c.From.Kind == c.To.Kind && c.To.Kind == Dir})
	}
	// What is below a selected path that turns into a file is in the list too.
	slices.Reverse(remove)
	slices.SortStableFunc(makes, func(a, b Step) int { return strings.Compare(a.Make.Path, b.Make.Path) })
	return append(remove, makes...), nil
}

// ErrNoPath reports a path that neither state has.
var ErrNoPath = errors.New("neither the tree nor the snapshot has it")

// parents returns the directories above a path, the top first.
func parents(path string) []string {
	var out []string
	for i := range len(path) {
		if path[i] == '/' {
			out = append(out, path[:i])
		}
	}
	return out
}
