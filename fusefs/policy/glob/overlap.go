package glob

import "slices"

// Overlap reports whether some path is covered by both patterns: named by each, or
// below what each names. A leading "!" and a trailing "/" are not considered. It
// may say yes too often (a bracket that matches nothing), never no too often.
func Overlap(p, q *Pattern) bool {
	o := overlap{p: p.segs, q: q.segs, seen: map[[2]int]bool{}}
	return o.from(0, 0)
}

// Contains reports whether everything that q covers is covered by p. It may say no
// too often: it knows only q without wildcards, or with "**" at its end alone.
func Contains(p, q *Pattern) bool {
	if slices.Equal(p.segs, q.segs) && (!p.dirOnly || q.dirOnly) {
		return true
	}
	base := ""
	for i, s := range q.segs {
		if s.kind == deep && i > 0 && i == len(q.segs)-1 {
			return base != "" && p.CoversTree(base, true)
		}
		if s.kind != literal {
			return false
		}
		if base != "" {
			base += "/"
		}
		base += s.text
	}
	// A path may be a file: a pattern for directories does not name it.
	return p.Covers(base, q.dirOnly)
}

type overlap struct {
	p, q []segment
	seen map[[2]int]bool // positions from which there is no common path
}

// from reports whether the segments from i and from j on have a path in common.
// Where one pattern ends, it covers whatever the other one names from there.
func (o *overlap) from(i, j int) bool {
	if i == len(o.p) || j == len(o.q) {
		return true
	}
	at := [2]int{i, j}
	if o.seen[at] {
		return false
	}
	o.seen[at] = true
	switch {
	case o.p[i].kind == deep:
		return o.from(i+1, j) || o.from(i, j+1)
	case o.q[j].kind == deep:
		return o.from(i, j+1) || o.from(i+1, j)
	}
	return o.p[i].meets(o.q[j]) && o.from(i+1, j+1)
}

// meets reports whether some name matches both segments; neither is deep.
func (s segment) meets(t segment) bool {
	switch {
	case s.kind == any || t.kind == any:
		return true
	case s.kind == literal:
		return t.match(s.text)
	case t.kind == literal:
		return s.match(t.text)
	}
	return meets(s.text, t.text, map[[2]int]bool{})
}

// meets is the product of two component patterns.
func meets(a, b string, seen map[[2]int]bool) bool {
	if a == "" && b == "" {
		return true
	}
	at := [2]int{len(a), len(b)}
	if seen[at] {
		return false
	}
	seen[at] = true
	switch {
	case a != "" && a[0] == '*':
		return meets(a[1:], b, seen) || b != "" && meets(a, b[width(b):], seen)
	case b != "" && b[0] == '*':
		return meets(a, b[1:], seen) || a != "" && meets(a[width(a):], b, seen)
	case a == "" || b == "":
		return false
	}
	for c := 1; c < 256; c++ {
		wa, oka := matchOne(a, byte(c))
		wb, okb := matchOne(b, byte(c))
		if oka && okb {
			return meets(a[wa:], b[wb:], seen)
		}
	}
	return false
}

// width is that of the first element of a component pattern.
func width(pattern string) int {
	if pattern[0] == '*' {
		return 1
	}
	w, _ := matchOne(pattern, 'x')
	return w
}
