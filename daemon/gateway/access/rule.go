package access

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// Methods are the methods that a rule can allow.
func Methods() []string {
	return []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
}

// MaxRules bounds the rules of one service.
const MaxRules = 256

// A Rule allows methods for the paths of a pattern. In a pattern, "*" is any text within one segment,
// and "**", alone in a segment, any number of segments.
type Rule struct {
	Methods []string
	Pattern string
}

// Rules are the rules of one service. What no rule allows is refused.
type Rules []Rule

// ParseRules reads `methods` and `paths` of a service. An entry of paths is a pattern, or methods of its
// own and a pattern: "GET,POST /repos/example/**".
func ParseRules(methods, paths []string) (Rules, error) {
	if err := checkMethods(methods); err != nil {
		return nil, fmt.Errorf("methods: %w", err)
	}
	if len(paths) == 0 || len(paths) > MaxRules {
		return nil, fmt.Errorf(`paths: must have 1 to %d patterns such as "/repos/example/**"`, MaxRules)
	}
	out := make(Rules, 0, len(paths))
	for i, text := range paths {
		r := Rule{Methods: methods, Pattern: text}
		if own, pattern, ok := strings.Cut(text, " "); ok && !strings.HasPrefix(text, "/") {
			r.Methods, r.Pattern = strings.Split(own, ","), pattern
			if err := checkMethods(r.Methods); err != nil {
				return nil, fmt.Errorf("paths[%d] = %q: %w", i, text, err)
			}
		}
		if err := checkPattern(r.Pattern); err != nil {
			return nil, fmt.Errorf("paths[%d] = %q: %w", i, text, err)
		}
		out = append(out, r)
	}
	return out, nil
}

func checkMethods(methods []string) error {
	if len(methods) == 0 {
		return fmt.Errorf("must have at least one of %q", Methods())
	}
	for _, m := range methods {
		if !slices.Contains(Methods(), m) {
			return fmt.Errorf("%q: must be one of %q", m, Methods())
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	if p, err := ParsePath(strings.ReplaceAll(pattern, "*", "x")); err != nil || strings.ContainsAny(pattern, "[]%") || p.Plain != strings.ReplaceAll(pattern, "*", "x") {
		return fmt.Errorf(`must be a plain path from "/" on, in which "*" is a part of a segment and "**" any segments`)
	}
	for _, s := range strings.Split(pattern, "/") {
		if s != "**" && strings.Contains(s, "**") {
			return fmt.Errorf(`"**" must be a segment of its own`)
		}
	}
	return nil
}

// Allow reports whether a request may be sent. GET allows HEAD.
func (rs Rules) Allow(method string, p Path) bool {
	for _, r := range rs {
		allowed := slices.Contains(r.Methods, method) || method == "HEAD" && slices.Contains(r.Methods, "GET")
		pattern := strings.Split(r.Pattern[1:], "/")
		if allowed && match(pattern, strings.Split(p.Plain[1:], "/")) && (p.scope == 0 || names(pattern, p.scope)) {
			return true
		}
	}
	return false
}

// names reports whether a pattern that matches names the scope of a package in a segment.
func names(pattern []string, scope int) bool {
	return scope < len(pattern) && strings.HasPrefix(pattern[scope], "@") && !slices.Contains(pattern[:scope], "**")
}

// match compares segments. It needs time in proportion to the product of both lengths at most: of the
// "**" before, only the last one is extended.
func match(pattern, segments []string) bool {
	pi, si, star, from := 0, 0, -1, 0
	for si < len(segments) {
		switch {
		case pi < len(pattern) && pattern[pi] == "**":
			star, from = pi, si
			pi++
		case pi < len(pattern) && one(pattern[pi], segments[si]):
			pi, si = pi+1, si+1
		case star >= 0:
			from++
			pi, si = star+1, from
		default:
			return false
		}
	}
	for pi < len(pattern) && pattern[pi] == "**" {
		pi++
	}
	return pi == len(pattern)
}

func one(pattern, segment string) bool {
	ok, err := path.Match(pattern, segment)
	return err == nil && ok
}
