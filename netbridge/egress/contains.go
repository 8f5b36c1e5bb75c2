package egress

import "net/netip"

// Contains reports whether everything that q allows is allowed by p; if not, it returns an entry of
// q that is not.
func (p Policy) Contains(q Policy) (outside string, ok bool) {
	if p.open {
		return "", true
	}
	if q.open {
		return Open, false
	}
	for name := range q.exact {
		if !p.Name(name) {
			return name, false
		}
	}
	for name := range q.under {
		// Everything below a name is allowed if the name itself is listed so, or is below one that is.
		if !p.under[name] && !p.belowListed(name) {
			return "*." + name, false
		}
	}
	for _, n := range q.nets {
		if !p.covers(n) {
			return showNet(n), false
		}
	}
	return "", true
}

// belowListed reports whether an entry for all below a name covers this one.
func (p Policy) belowListed(name string) bool {
	only := Policy{under: p.under}
	return only.Name(name)
}

func (p Policy) covers(n netip.Prefix) bool {
	for _, own := range p.nets {
		if own.Bits() <= n.Bits() && own.Contains(n.Addr()) {
			return true
		}
	}
	return false
}
