package policy

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"polis/fusefs/policy/glob"
)

// Verdict is the answer to one question about one path.
type Verdict uint8

// The verdicts. The zero value refuses.
const (
	Deny Verdict = iota
	Allow
	// Ask means that a commander has to be asked.
	Ask
	// Hide means that the path does not exist for the agent.
	Hide
)

func (v Verdict) String() string {
	switch v {
	case Allow:
		return "allow"
	case Ask:
		return "ask"
	case Hide:
		return "hide"
	}
	return "deny"
}

// Rules are the rules of one agent as they are written in configuration and
// on the command line.
type Rules struct {
	Read  []string `json:"read,omitempty" toml:"read"`
	Write []string `json:"write,omitempty" toml:"write"`
	Ask   []string `json:"ask,omitempty" toml:"ask"`
	Deny  []string `json:"deny,omitempty" toml:"deny"`
	Hide  []string `json:"hide,omitempty" toml:"hide"`
	// Temp are names under which programs of this agent save, beside the
	// built-in ones (see CompileTemps).
	Temp []string `json:"temp,omitempty" toml:"temp_names"`
}

// Limits of Compile. A policy is consulted at every system call; more rules than this are a
// mistake in the program that generated them.
const MaxRules = 10000

// RuleError names the rule that does not compile.
type RuleError struct {
	List  string // "read", "write", "ask", "deny" or "hide"
	Index int    // position in the list, from 0
	Glob  string
	Err   error
}

func (e *RuleError) Error() string {
	return fmt.Sprintf("policy: %s[%d] %q: %v", e.List, e.Index, e.Glob, e.Err)
}

// Unwrap returns what package glob has against the pattern.
func (e *RuleError) Unwrap() error { return e.Err }

// Decision is the result of a Set for one path.
type Decision struct {
	Read, Write Verdict
	// Rule is the rule that decided, as `deny "secrets/**"`, or "" if none
	// covers the path.
	Rule string
}

// Explicit reports whether a rule, not the absence of one, withholds the path.
func (d Decision) Explicit() bool { return d.Read != Allow && d.Rule != "" }

// Shown reports whether the file may be read, perhaps after an approval. Else the agent's git never
// reads it.
func (d Decision) Shown() bool { return d.Read == Allow || d.Read == Ask }

// Set is a compiled policy. It is immutable and safe for concurrent use.
type Set struct {
	rules                        Rules
	read, write, ask, deny, hide list
	temps                        *Temps
	cache                        cache
}

// list is one of the five lists; the last covering pattern wins.
type list struct {
	name     string
	patterns []*glob.Pattern
	labels   []string
	// trees: "d/**" also covers d itself. So for what is granted, and not for
	// what is withheld: hiding everything in d does not hide d.
	trees bool
}

// Compile compiles rules. The error is a *RuleError unless there are too
// many rules.
func Compile(r Rules) (*Set, error) {
	if n := len(r.Read) + len(r.Write) + len(r.Ask) + len(r.Deny) + len(r.Hide); n > MaxRules {
		return nil, fmt.Errorf("policy: %d rules, at most %d", n, MaxRules)
	}
	temps, err := CompileTemps(r.Temp)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	s := &Set{rules: r.clone(), temps: temps}
	for _, l := range []struct {
		name  string
		globs []string
		to    *list
		trees bool
	}{
		{"read", r.Read, &s.read, true},
		{"write", r.Write, &s.write, true},
		{"ask", r.Ask, &s.ask, false},
		{"deny", r.Deny, &s.deny, false},
		{"hide", r.Hide, &s.hide, false},
	} {
		if err := l.to.compile(l.name, l.globs, l.trees); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (l *list) compile(name string, globs []string, trees bool) error {
	l.name, l.trees = name, trees
	for i, g := range globs {
		p, err := glob.Compile(g)
		if err != nil {
			return &RuleError{List: name, Index: i, Glob: g, Err: err}
		}
		l.patterns = append(l.patterns, p)
		l.labels = append(l.labels, name+" "+quoted(g))
	}
	return nil
}

// quoted quotes a rule as it was written: a person can copy it, so its backslashes are not doubled.
func quoted(rule string) string {
	if strings.ContainsFunc(rule, func(r rune) bool { return r == '"' || r == utf8.RuneError || !strconv.IsPrint(r) }) {
		return strconv.Quote(rule)
	}
	return `"` + rule + `"`
}

// covers returns the label of the pattern that grants or withholds the path.
func (l *list) covers(path string, dir bool) (label string, ok bool) {
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := l.patterns[i]
		if l.trees && p.CoversTree(path, dir) || !l.trees && p.Covers(path, dir) {
			return l.labels[i], !p.Negated()
		}
	}
	return "", false
}

// mayChangeBelow reports whether some pattern could single out something below
// dir.
func (l *list) mayChangeBelow(dir string) bool {
	for _, p := range l.patterns {
		if p.MayMatchBelow(dir) {
			return true
		}
	}
	return false
}

// Rules returns the rules the set was compiled from.
func (s *Set) Rules() Rules { return s.rules.clone() }

// Temps returns the temporary names the set was compiled with.
func (s *Set) Temps() *Temps { return s.temps }

// Unlimited reports whether no rule limits anything.
func (s *Set) Unlimited() bool {
	return len(s.read.patterns)+len(s.write.patterns)+len(s.ask.patterns)+
		len(s.deny.patterns)+len(s.hide.patterns) == 0
}

func (r Rules) clone() Rules {
	c := func(in []string) []string { return append([]string(nil), in...) }
	return Rules{Read: c(r.Read), Write: c(r.Write), Ask: c(r.Ask), Deny: c(r.Deny), Hide: c(r.Hide), Temp: c(r.Temp)}
}

// Decide returns what the agent may do with the path: relative to the
// repository's root, slash separated, in its one clean spelling; "" is the
// root. dir reports whether it is a directory.
func (s *Set) Decide(path string, dir bool) Decision {
	if s.Unlimited() {
		return Decision{Read: Allow, Write: Allow}
	}
	if d, ok := s.cache.get(path, dir); ok {
		return d
	}
	d := s.decide(path, dir)
	s.cache.put(path, dir, d)
	return d
}

func (s *Set) decide(path string, dir bool) Decision {
	if rule, ok := s.hide.covers(path, dir); ok {
		return Decision{Hide, Hide, rule}
	}
	if rule, ok := s.deny.covers(path, dir); ok {
		return Decision{Deny, Deny, rule}
	}
	if rule, ok := s.ask.covers(path, dir); ok {
		return Decision{Ask, Ask, rule}
	}
	noRead, noWrite := len(s.read.patterns) == 0, len(s.write.patterns) == 0
	if rule, ok := s.write.covers(path, dir); ok {
		return Decision{Allow, Allow, rule}
	}
	if rule, ok := s.read.covers(path, dir); ok {
		return Decision{Allow, Deny, rule}
	}
	switch {
	case noRead && noWrite:
		return Decision{Read: Allow, Write: Allow}
	case noRead:
		return Decision{Read: Allow, Write: Deny}
	}
	return Decision{Read: Deny, Write: Deny}
}

// AllWritable reports whether it is certain, from the rules alone, that every
// name below the directory may be written. If not, the names have to be
// asked about one by one.
func (s *Set) AllWritable(dir string) bool {
	if s.hide.mayChangeBelow(dir) || s.deny.mayChangeBelow(dir) || s.ask.mayChangeBelow(dir) {
		return false
	}
	if len(s.write.patterns) == 0 {
		return len(s.read.patterns) == 0
	}
	// The last pattern that can reach below must be a positive one that
	// takes everything below.
	for i := len(s.write.patterns) - 1; i >= 0; i-- {
		p := s.write.patterns[i]
		if p.MayMatchBelow(dir) {
			return !p.Negated() && p.CoversTree(dir, true)
		}
	}
	return false
}

// SomeWritable reports whether the rules permit to write something directly or anywhere
// below the directory: an unknown
// temporary name is then permitted in it.
func (s *Set) SomeWritable(dir string) bool {
	d := s.Decide(dir, true)
	switch {
	case d.Write == Allow:
		return true
	case d.Explicit():
		return false
	}
	for _, p := range s.write.patterns {
		if !p.Negated() && p.MayMatchBelow(dir) {
			return true
		}
	}
	return false
}
