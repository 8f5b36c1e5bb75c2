package policy

// DecideThrough is Decide for a name that may be temporary: a rule about the
// name itself counts, else the decision is that about the destination. The
// destination's own withholding rules count too: the swap file of a denied
// file holds its text.
func (s *Set) DecideThrough(path string, dir bool) Decision {
	own := s.Decide(path, dir)
	if own.Explicit() || dir || s.Unlimited() {
		return own
	}
	dest, kind := s.temps.Classify(path)
	switch kind {
	case Known:
		to := s.Decide(dest, false)
		if to.Explicit() {
			return to
		}
		return merge(own, to)
	case Unknown:
		if own.Write != Allow && s.SomeWritable(dest) {
			return Decision{Allow, Allow, own.Rule}
		}
	}
	return own
}

// merge takes the more generous of two decisions that no rule withholds.
func merge(a, b Decision) Decision {
	if a.Write == Allow || (a.Read == Allow && b.Write != Allow) {
		return a
	}
	return b
}
