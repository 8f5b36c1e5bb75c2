package policy

// AllReadable reports whether it is certain, from the rules alone, that every file
// may be read.
func (s *Set) AllReadable() bool {
	if len(s.hide.patterns)+len(s.deny.patterns)+len(s.ask.patterns) > 0 {
		return false
	}
	return len(s.read.patterns) == 0 || s.read.takesAll("")
}

// NothingReadable reports whether it is certain, from the rules alone, that no
// file anywhere below the directory may be read.
func (s *Set) NothingReadable(dir string) bool {
	for _, l := range []*list{&s.hide, &s.deny, &s.ask} {
		if l.takesAll(dir) {
			return true
		}
	}
	if len(s.read.patterns) == 0 {
		return false
	}
	for _, l := range []*list{&s.read, &s.write} {
		for _, p := range l.patterns {
			if !p.Negated() && p.MayMatchBelow(dir) {
				return false
			}
		}
	}
	return true
}

// NothingShown reports whether it is certain, from the rules alone, that no file
// anywhere below the directory may be read, also after an approval.
func (s *Set) NothingShown(dir string) bool {
	if s.hide.takesAll(dir) || s.deny.takesAll(dir) {
		return true
	}
	for _, p := range s.ask.patterns {
		if !p.Negated() && p.MayMatchBelow(dir) {
			return false
		}
	}
	return s.NothingReadable(dir)
}

// takesAll reports whether it is certain that the list covers everything below
// dir: some pattern does, and none that comes later negates it there.
func (l *list) takesAll(dir string) bool {
	for i := len(l.patterns) - 1; i >= 0; i-- {
		p := l.patterns[i]
		switch {
		case p.Negated() && p.MayMatchBelow(dir):
			return false
		case !p.Negated() && p.CoversTree(dir, true):
			return true
		}
	}
	return false
}
