package gate

import (
	"fmt"

	"polis/fusefs/policy/glob"
)

// MaxPatterns bounds a list of patterns.
const MaxPatterns = 1000

// Patterns is a compiled list of gitignore(5) patterns. The last one that covers
// a path decides; one that begins with "!" negates what came before it.
type Patterns []*glob.Pattern

// Compile compiles a list. The error names the pattern.
func Compile(globs []string) (Patterns, error) {
	if len(globs) > MaxPatterns {
		return nil, fmt.Errorf("%d patterns, at most %d", len(globs), MaxPatterns)
	}
	out := make(Patterns, 0, len(globs))
	for _, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", g, err)
		}
		out = append(out, p)
	}
	return out, nil
}

// Covers returns the pattern that names the path or a directory above it.
func (l Patterns) Covers(path string) (pattern string, ok bool) {
	for i := len(l) - 1; i >= 0; i-- {
		if l[i].Covers(path, false) || l[i].Covers(path, true) {
			return l[i].String(), !l[i].Negated()
		}
	}
	return "", false
}
