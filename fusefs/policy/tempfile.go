package policy

import "strings"

// TempFile reports whether the rules let a file of this path be a temporary one: no rule names it and none lets the
// agent write it, but rules let the agent write other files of its directory one by one, perhaps after a question.
// Such a file can become one of those.
func (s *Set) TempFile(path string) bool {
	d := s.DecideThrough(path, false)
	if d.Write != Deny || d.Explicit() || s.write.excludes(path) {
		return false
	}
	dir := ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir = path[:i]
	}
	return s.singleFiles(&s.write, dir) || s.singleFiles(&s.ask, dir)
}

// excludes reports whether a negated pattern takes the path out of the list.
func (l *list) excludes(path string) bool {
	label, ok := l.covers(path, false)
	return label != "" && !ok
}

// singleFiles reports whether the list names files directly in a directory that may be written.
func (s *Set) singleFiles(l *list, dir string) bool {
	for _, p := range l.patterns {
		if p.Negated() {
			continue
		}
		name, all, some := p.Children(dir)
		switch {
		case all:
			return true
		case !some:
			continue
		}
		if dir != "" {
			name = dir + "/" + name
		}
		if w := s.Decide(name, false).Write; w == Allow || w == Ask {
			return true
		}
	}
	return false
}
