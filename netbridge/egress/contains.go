package egress

import "net/netip"

// Contains reports whether p allows everything that q allows, and allows or asks about everything
// that q asks about; if not, it returns an entry of q that is wider. It can be wrong in one
// direction only: it may find something wider that is not.
func (p Policy) Contains(q Policy) (outside string, ok bool) {
	if p.open {
		return "", true
	}
	if q.open {
		return Open, false
	}
	allows, asks := p.lists(), p.lists()
	if p.ask != nil {
		asks = append(asks, p.ask.Policy)
	}
	if e, ok := listed(q, allows); !ok {
		return e, false
	}
	// An entry with "ask:" takes a part of a wider entry of the same list back. q must do the same,
	// or else name nothing in which that part may lie.
	if e, ok := p.takenBack(q); !ok {
		return e, false
	}
	if q.ask == nil || p.ask != nil && p.ask.rest {
		return "", true
	}
	if q.ask.rest {
		return Ask, false
	}
	e, ok := listed(q.ask.Policy, asks)
	return askPrefix + e, ok
}

// lists returns p as the only list.
func (p Policy) lists() []Policy { return []Policy{{exact: p.exact, under: p.under, nets: p.nets}} }

// listed reports whether each entry of q lies in an entry of one of the lists.
func listed(q Policy, lists []Policy) (outside string, ok bool) {
	in := func(covers func(Policy) bool) bool {
		for _, l := range lists {
			if covers(l) {
				return true
			}
		}
		return false
	}
	for name := range q.exact {
		if !in(func(l Policy) bool { return l.Name(name) }) {
			return name, false
		}
	}
	for name := range q.under {
		// Everything below a name is listed if the name itself is listed so, or is below one that is.
		if !in(func(l Policy) bool { return l.under[name] || Policy{under: l.under}.Name(name) }) {
			return "*." + name, false
		}
	}
	for _, n := range q.nets {
		if !in(func(l Policy) bool { return l.covers(n) }) {
			return showNet(n), false
		}
	}
	return "", true
}

// takenBack reports whether q allows nothing that p asks about.
func (p Policy) takenBack(q Policy) (outside string, ok bool) {
	if p.ask == nil {
		return "", true
	}
	if q.ask != nil {
		if _, all := listed(p.ask.Policy, q.ask.lists()); all {
			return "", true
		}
	}
	for name := range q.exact {
		if p.ask.Name(name) {
			return name, false
		}
	}
	for name := range q.under {
		if p.ask.reaches(name) {
			return "*." + name, false
		}
	}
	for _, n := range q.nets {
		for _, a := range p.ask.nets {
			if a.Overlaps(n) {
				return showNet(n), false
			}
		}
	}
	return "", true
}

// reaches reports whether the policy can name anything below a name.
func (p Policy) reaches(name string) bool {
	below := Policy{under: map[string]bool{name: true}}
	if p.under[name] || (Policy{under: p.under}).Name(name) {
		return true
	}
	for n := range p.exact {
		if below.Name(n) {
			return true
		}
	}
	for n := range p.under {
		if below.Name(n) {
			return true
		}
	}
	return false
}

func (p Policy) covers(n netip.Prefix) bool {
	for _, own := range p.nets {
		if own.Bits() <= n.Bits() && own.Contains(n.Addr()) {
			return true
		}
	}
	return false
}
