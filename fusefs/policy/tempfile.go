package policy

import "strings"

// TempFile reports whether the rules let a file of this path be a temporary one: no rule names it and none lets the
// agent write it, but rules let the agent write other files of its directory one by one, perhaps after a question.
// Such a file can become one of those. directory reports whether a path is a directory now, which no file becomes: a rule
// such as "docs" then names what is in it; nil: none is.
func (s *Set) TempFile(path string, directory func(path string) bool) bool {
	d := s.DecideThrough(path, false)
	if d.Write != Deny || d.Explicit() || s.write.excludes(path) {
		return false
	}
	dir := ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		dir = path[:i]
	}
	return s.singleFiles(&s.write, dir, directory) || s.singleFiles(&s.ask, dir, directory)
}

// excludes reports whether a negated pattern takes the path out of the list.
func (l *list) excludes(path string) bool {
	label, ok := l.covers(path, false)
	return label != "" && !ok
}

// singleFiles reports whether the list names files directly in a directory that may be written.
func (s *Set) singleFiles(l *list, dir string, directory func(path string) bool) bool {
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
		if w := s.Decide(name, false).Write; (w == Allow || w == Ask) && (directory == nil || !directory(name)) {
			return true
		}
	}
	return false
}
