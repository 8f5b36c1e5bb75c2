package inode

import "unsafe"

// pathAt is the path of a directory, right while no directory has moved since.
type pathAt struct {
	moves uint64
	path  string
}

// Path is the path of a directory, or the first one of another object.
func (t *Table) Path(n *Node) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pathOf(n)
}

// longPath bounds the paths that are remembered, in bytes: in a very deep tree
// all of them together would be long indeed.
const longPath = 4096

// pathOf is path with mu held, in whatever way.
func (t *Table) pathOf(n *Node) string {
	if n == t.Root {
		return ""
	}
	now := t.moves.Load()
	var buf [32]string
	parts := buf[:0]
	up, size := n, 0
	for up != t.Root {
		part, more := up.first.Name, true
		if p := up.knownPath(now); p != nil {
			part, more = p.path, false
		} else if up.first.Parent == nil {
			part, more = up.lastPath(), false
		}
		parts = append(parts, part)
		size += len(part) + 1
		if !more {
			break
		}
		up = up.first.Parent
	}
	if len(parts) == 1 && up == n {
		return parts[0]
	}
	b := make([]byte, 0, size)
	for i := len(parts) - 1; i >= 0; i-- {
		if len(b) > 0 {
			b = append(b, '/')
		}
		b = append(b, parts[i]...)
	}
	path := unsafe.String(unsafe.SliceData(b), len(b)) // b is not written to again
	if n.IsDir() && n.first.Parent != nil && len(path) <= longPath {
		n.rare.path.Store(&pathAt{now, path})
	}
	return path
}

// knownPath is the path that was computed last, if no directory has moved since.
func (n *Node) knownPath(moves uint64) *pathAt {
	if !n.IsDir() {
		return nil
	}
	if p := n.rare.path.Load(); p != nil && p.moves == moves {
		return p
	}
	return nil
}

func (n *Node) lastPath() string {
	if g := n.left(); g != nil {
		return g.path
	}
	return ""
}

func (t *Table) join(parent *Node, name string) string {
	if p := t.pathOf(parent); p != "" {
		return p + "/" + name
	}
	return name
}

// Child is the path of a name in a directory.
func (t *Table) Child(parent *Node, name string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.join(parent, name)
}

// Paths are all known paths of an object, or where it last was.
func (t *Table) Paths(n *Node) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n == t.Root || n.first.Parent == nil || len(n.others()) == 0 {
		return []string{t.pathOf(n)}
	}
	out := make([]string, 0, 1+len(n.others()))
	n.eachName(func(r Name) { out = append(out, t.join(r.Parent, r.Name)) })
	return out
}

// SomePaths are the first known paths of an object, at most so many; none if
// it has no name.
func (t *Table) SomePaths(n *Node, most int) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n.first.Parent == nil {
		return nil
	}
	out := []string{t.join(n.first.Parent, n.first.Name)}
	others := n.others()
	for _, r := range others[:min(most-1, len(others))] {
		out = append(out, t.join(r.Parent, r.Name))
	}
	return out
}

// FewNames is how many names of an object are checked where one that allows
// is enough: of an object with thousands of names, not all at every look-up.
const FewNames = 16

// FewPaths is paths, but at most fewNames of them.
func (t *Table) FewPaths(n *Node) []string {
	t.mu.RLock()
	many := len(n.others()) >= FewNames
	t.mu.RUnlock()
	if many {
		if p := t.SomePaths(n, FewNames); len(p) > 0 {
			return p
		}
	}
	return t.Paths(n)
}

// Sole returns the one known name of an object; ok is false if it has another
// number of them.
func (t *Table) Sole(n *Node) (r Name, ok bool) {
	t.mu.RLock()
	r, ok = n.first, n.first.Parent != nil && len(n.others()) == 0
	t.mu.RUnlock()
	return r, ok
}

// Nth returns the known names one by one.
func (t *Table) Nth(n *Node, i int) (Name, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case i == 0:
		return n.first, n.first.Parent != nil
	case i <= len(n.others()):
		return n.others()[i-1], true
	}
	return Name{}, false
}

// Refs is a copy of the known names.
func (t *Table) Refs(n *Node) []Name {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []Name
	n.eachName(func(r Name) { out = append(out, r) })
	return out
}
