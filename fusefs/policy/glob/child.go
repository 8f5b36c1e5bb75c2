package glob

// Children returns which files directly in a directory the pattern can cover: only the one of a name, or all,
// which may be too many: it misses none.
func (p *Pattern) Children(dir string) (only string, all, some bool) {
	at := p.closure(make([]bool, len(p.segs)+1), 0)
	for rest := dir; rest != ""; {
		var name string
		name, rest = cut(rest)
		next := make([]bool, len(p.segs)+1)
		for i, on := range at {
			switch {
			case !on:
			case i == len(p.segs):
				next[i] = true
			case p.segs[i].kind == deep:
				next = p.closure(next, i)
			case p.segs[i].match(name):
				next = p.closure(next, i+1)
			}
		}
		at = next
	}
	last := len(p.segs) - 1
	switch {
	case at[last+1] && dir != "" && p.CoversTree(dir, true), at[last] && p.segs[last].kind == deep:
		return "", true, true
	case !at[last] || p.dirOnly:
		return "", false, false
	case p.segs[last].kind == literal:
		return p.segs[last].text, false, true
	}
	return "", true, true
}

// closure adds a position, and those after "**" that match nothing.
func (p *Pattern) closure(at []bool, i int) []bool {
	for ; ; i++ {
		at[i] = true
		if i == len(p.segs) || p.segs[i].kind != deep {
			return at
		}
	}
}
