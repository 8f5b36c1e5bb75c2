package gate

import (
	"fmt"
	"slices"
	"strings"

	"polis/fusefs/policy/glob"
)

// Protected are the paths that need a person's acceptance, in the language of Patterns. A pattern covers a path also if it
// covers the name that a file system which folds names could store it under (fold); one that begins with "!"
// covers only what it names exactly.
type Protected struct {
	patterns Patterns
	folded   Patterns   // of the same length
	above    []Patterns // of the same length: the directories that a pattern names in any place
	// single has the index of the last pattern that is one plain name, by that name.
	single map[string]int
	// others are the indexes of the patterns that are not in single, the last one first.
	others []int
}

// CompileProtected compiles a list. The error names the pattern.
func CompileProtected(globs []string) (Protected, error) {
	exact, err := Compile(globs)
	if err != nil {
		return Protected{}, err
	}
	p := Protected{patterns: exact, folded: slices.Clone(exact), above: make([]Patterns, len(exact)), single: map[string]int{}}
	for i, e := range exact {
		if !e.Negated() {
			if f, err := glob.Compile(fold(globs[i])); err == nil {
				p.folded[i] = f
			}
			p.above[i] = directories(fold(globs[i]))
		}
		if name := globs[i]; e.Negated() || strings.ContainsAny(name, `/*?[\`) {
			p.others = append(p.others, i)
		} else {
			p.single[fold(name)] = i
		}
	}
	slices.Reverse(p.others)
	return p, nil
}

// directories returns patterns for what is above the names of a pattern that begins with "**": of "**/a/b/c", those are "**/a"
// and "**/a/b".
func directories(pattern string) Patterns {
	parts := strings.Split(strings.TrimSuffix(pattern, "/"), "/")
	if parts[0] != "**" {
		return nil
	}
	var out Patterns
	for n := 2; n < len(parts); n++ {
		if g, err := glob.Compile(strings.Join(parts[:n], "/")); err == nil {
			out = append(out, g)
		}
	}
	return out
}

// Covers returns the pattern that names the path or a directory above it.
func (p Protected) Covers(path string) (pattern string, ok bool) {
	if len(p.patterns) == 0 {
		return "", false
	}
	folded := fold(path)
	last := -1
	for name := range strings.SplitSeq(folded, "/") {
		if i, ok := p.single[name]; ok {
			last = max(last, i)
		}
	}
	for _, i := range p.others {
		if i < last {
			break
		}
		g := p.patterns[i]
		if covers(g, path) || !g.Negated() && covers(p.folded[i], folded) {
			return g.String(), !g.Negated()
		}
	}
	if last < 0 {
		return "", false
	}
	return p.patterns[last].String(), true
}

func covers(g *glob.Pattern, path string) bool { return g.Covers(path, false) || g.Covers(path, true) }

// below returns a pattern that names a place under path. A link at path moves that place to wherever the link leads.
func (p Protected) below(path string) (pattern string, ok bool) {
	folded := fold(path)
	for i, g := range p.patterns {
		if g.Negated() {
			continue
		}
		s := strings.TrimSuffix(g.String(), "/")
		fixed := strings.Contains(s, "/") && !strings.HasPrefix(s, "**")
		if fixed && (g.MayMatchBelow(path) || p.folded[i].MayMatchBelow(folded)) {
			return g.String(), true
		}
		for _, dir := range p.above[i] {
			if dir.Match(folded, true) {
				return g.String(), true
			}
		}
	}
	return "", false
}

// protected returns the reason why a person has to accept a change, "" if there is none.
func (r Rules) protected(c Change) string {
	if p, ok := r.Protected.Covers(c.Path); ok {
		if why := r.Reasons[p]; why != "" {
			return fmt.Sprintf("protected %q: %s", p, why)
		}
		return fmt.Sprintf("protected %q", p)
	}
	if why := r.always(c); why != "" {
		return why
	}
	if c.New != ModeLink {
		return ""
	}
	if p, ok := r.Protected.below(c.Path); ok {
		return fmt.Sprintf("a link above the protected %q", p)
	}
	return ""
}
