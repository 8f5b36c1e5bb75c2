package policylearn

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"polis/fusefs/policy"
	policyglob "polis/fusefs/policy/glob"
)

// Options bound what Learn returns. The zero value has the defaults.
type Options struct {
	// Spread is how many names of a directory must have been used before the directory becomes a rule; 0: 8.
	Spread int
	// MaxRules is the most rules of each list; 0: 100.
	MaxRules int
}

// Learned is a role for what was recorded.
type Learned struct {
	// Rules allow it. Their ask, deny and hide are those that were in force.
	Rules policy.Rules
	// Withheld is what was recorded although the rules in force withhold it, such as what a person approved,
	// and a change of the root directory itself: the rules do not allow it.
	Withheld []Refusal
	// ReadSpread and WriteSpread are the spreads that were used; 0: paths were cut at a depth.
	ReadSpread, WriteSpread int
}

// ErrNothing reports that nothing was recorded: rules that name nothing would allow everything.
var ErrNothing = errors.New("policylearn: nothing was recorded")

// Learn returns the rules that allow the uses. Of inForce only ask, deny, hide and temp count.
func Learn(uses []Use, inForce policy.Rules, o Options) (Learned, error) {
	o.Spread, o.MaxRules = cmp.Or(o.Spread, 8), cmp.Or(o.MaxRules, 100)
	l := Learned{Rules: policy.Rules{Ask: slices.Clone(inForce.Ask), Deny: slices.Clone(inForce.Deny), Hide: slices.Clone(inForce.Hide), Temp: slices.Clone(inForce.Temp)}}
	withheld, err := policy.Compile(l.Rules)
	if err != nil {
		return Learned{}, err
	}
	var open, late []Use
	for _, u := range sorted(slices.Clone(uses)) {
		if r := Check(withheld, []Use{u}); len(r) > 0 && !u.Tree {
			l.Withheld = append(l.Withheld, r...)
			continue
		}
		if u.Attr && u.Path == "" { // only "**" would allow it
			l.Withheld = append(l.Withheld, Refusal{Use: u, Verdict: policy.Deny.String()})
			continue
		}
		if !u.Tree && !u.Dir {
			dest, kind := withheld.Temps().Classify(u.Path)
			switch kind {
			case policy.Known:
				u.Path = dest
			case policy.Unknown:
				late = append(late, u)
				continue
			}
		}
		open = append(open, u)
	}
	set, err := l.fit(open, o)
	if err != nil {
		return Learned{}, err
	}
	// A name without a destination is allowed where something may be written.
	if refused := Check(set, late); len(refused) > 0 {
		if _, err = l.fit(append(open, fewest(refused)...), o); err != nil {
			return Learned{}, err
		}
	}
	if len(l.Rules.Read)+len(l.Rules.Write) == 0 {
		return l, ErrNothing
	}
	return l, nil
}

// fewest returns those of the refused uses of names without a destination that need a rule: one that may be
// written in a directory, or below it, allows all others there.
func fewest(refused []Refusal) (out []Use) {
	slices.SortStableFunc(refused, func(a, b Refusal) int {
		if a.Write != b.Write {
			return rank(b.Use) - rank(a.Use) // writes first, the deepest first
		}
		return depthOf(b.Use) - depthOf(a.Use)
	})
	writable := map[string]bool{}
	for _, r := range refused {
		dirs := []string{""}
		for i := range len(r.Path) {
			if r.Path[i] == '/' {
				dirs = append(dirs, r.Path[:i])
			}
		}
		if writable[dirs[len(dirs)-1]] {
			continue
		}
		out = append(out, r.Use)
		for _, d := range dirs {
			writable[d] = writable[d] || r.Write
		}
	}
	return out
}

// fit sets the rules for the uses.
func (l *Learned) fit(uses []Use, o Options) (*policy.Set, error) {
	var reads, writes []Use
	for _, u := range uses {
		if u.Write {
			writes = append(writes, u)
		}
	}
	l.Rules.Write, l.WriteSpread = globs(writes, o)
	l.Rules.Write = needed(l.Rules.Write, writes)
	covered, err := policy.Compile(policy.Rules{Read: []string{"/none"}, Write: append([]string{"/none"}, l.Rules.Write...), Temp: l.Rules.Temp})
	if err != nil {
		return nil, err
	}
	for _, u := range uses {
		if !u.Write && (u.Tree && !covered.AllWritable(u.Path) || !u.Tree && covered.Decide(u.Path, u.Dir).Read != policy.Allow) {
			reads = append(reads, u)
		}
	}
	l.Rules.Read, l.ReadSpread = globs(reads, o)
	if l.Rules.Read = needed(l.Rules.Read, reads); len(l.Rules.Read) == 0 {
		l.Rules.Read = slices.Clone(l.Rules.Write) // without a read rule everything could be read
	}
	rules := l.Rules
	if len(rules.Read) == 0 { // nothing recorded: nothing allowed
		rules.Deny = append(slices.Clone(rules.Deny), "**")
	}
	return policy.Compile(rules)
}

// needed returns the rules without those that no use needs: a rule for a name with bytes that cannot be
// written matches other names, too.
func needed(rules []string, uses []Use) (out []string) {
	by := make([][]int, len(rules)) // the uses that a rule covers
	times := make([]int, len(uses))
	for i, r := range rules {
		p, err := policyglob.Compile(r)
		if err != nil {
			return rules // policy.Compile returns the error
		}
		for j, u := range uses {
			if p.CoversTree(u.Path, u.Dir || u.Tree) {
				by[i] = append(by[i], j)
				times[j]++
			}
		}
	}
	for i, r := range rules {
		if slices.ContainsFunc(by[i], func(j int) bool { return times[j] == 1 }) {
			out = append(out, r)
			continue
		}
		for _, j := range by[i] {
			times[j]--
		}
	}
	return out
}

// node is a name of the tree of the uses.
type node struct {
	children map[string]*node
	// file: the name itself was used. dir: it was made or removed as a directory. tree: anything below
	// it was used.
	file, dir, tree bool
}

func treeOf(uses []Use) *node {
	root := &node{children: map[string]*node{}}
	for _, u := range uses {
		n := root
		for _, name := range names(u.Path) {
			c := n.children[name]
			if c == nil {
				c = &node{children: map[string]*node{}}
				n.children[name] = c
			}
			n = c
		}
		n.file, n.dir, n.tree = n.file || !u.Dir && !u.Tree, n.dir || u.Dir, n.tree || u.Tree || u.Attr
	}
	return root
}

func names(path string) []string {
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// globs returns the rules for the uses, and the spread that led to them.
func globs(uses []Use, o Options) (out []string, spread int) {
	root := treeOf(uses)
	if out = root.rules(nil, o.Spread, -1); len(out) <= o.MaxRules {
		return out, o.Spread
	}
	for spread = o.Spread - 1; spread > 1; spread-- {
		if out = root.rules(nil, spread, -1); len(out) <= o.MaxRules {
			return out, spread
		}
	}
	for depth := root.depth(); depth > 0 && len(out) > o.MaxRules; depth-- {
		out = root.rules(nil, 0, depth-1)
	}
	return out, 0
}

func (n *node) depth() (deepest int) {
	for _, c := range n.children {
		deepest = max(deepest, 1+c.depth())
	}
	return deepest
}

// rules returns the rules for a node at a path: with spread > 0 a directory with so many used names is one,
// else one at cut names.
func (n *node) rules(path []string, spread, cut int) (out []string) {
	general := n.tree || spread > 0 && len(path) > 0 && len(n.children) >= spread || spread == 0 && len(path) >= cut && len(n.children) > 0
	switch {
	case n.file && len(path) > 0:
		return []string{glob(path, false)} // of a directory: everything below it too
	case general, n.dir && len(n.children) == 0, n.file:
		return []string{glob(path, true)}
	}
	for _, name := range slices.Sorted(maps.Keys(n.children)) {
		out = append(out, n.children[name].rules(append(slices.Clip(path), name), spread, cut)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// glob is the rule for a path. A byte that a configuration file cannot have becomes a class
// of those bytes.
func glob(path []string, tree bool) string {
	var b strings.Builder
	for _, name := range path {
		b.WriteByte('/')
		for len(name) > 0 {
			r, size := utf8.DecodeRuneInString(name)
			switch {
			case r == utf8.RuneError && size <= 1, r < ' ', r == 0x7f, r >= 0x80 && r < 0xa0:
				b.WriteString(strings.Repeat("[! -~]", size))
			case strings.ContainsRune(`*?[\ `, r):
				b.WriteByte('\\')
				fallthrough
			default:
				b.WriteString(name[:size])
			}
			name = name[size:]
		}
	}
	switch {
	case len(path) == 0:
		return "**"
	case tree:
		return b.String() + "/**"
	}
	return b.String()
}
