package fusefs

import "unsafe"

// pathAt is the path of a directory, right while no directory has moved since.
type pathAt struct {
	moves uint64
	path  string
}

// path is the path of a directory, or the first one of another object.
func (t *tree) path(n *node) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.pathOf(n)
}

// longPath bounds the paths that are remembered, in bytes: in a very deep tree
// all of them together would be long indeed.
const longPath = 4096

// pathOf is path with mu held, in whatever way.
func (t *tree) pathOf(n *node) string {
	if n == t.root {
		return ""
	}
	now := t.moves.Load()
	var buf [32]string
	parts := buf[:0]
	up, size := n, 0
	for up != t.root {
		part, more := up.first.name, true
		if p := up.path.Load(); p != nil && p.moves == now {
			part, more = p.path, false
		} else if up.first.parent == nil {
			part, more = up.lastPath(), false
		}
		parts = append(parts, part)
		size += len(part) + 1
		if !more {
			break
		}
		up = up.first.parent
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
	if n.isDir() && n.first.parent != nil && len(path) <= longPath {
		n.path.Store(&pathAt{now, path})
	}
	return path
}

func (n *node) lastPath() string {
	if n.gone == nil {
		return ""
	}
	return n.gone.path
}

func (t *tree) join(parent *node, name string) string {
	if p := t.pathOf(parent); p != "" {
		return p + "/" + name
	}
	return name
}

// child is the path of a name in a directory.
func (t *tree) child(parent *node, name string) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.join(parent, name)
}

// paths are all known paths of an object, or where it last was.
func (t *tree) paths(n *node) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n == t.root || n.first.parent == nil || n.more == nil {
		return []string{t.pathOf(n)}
	}
	out := make([]string, 0, 1+len(*n.more))
	n.eachName(func(r nameRef) { out = append(out, t.join(r.parent, r.name)) })
	return out
}

// somePaths are the first known paths of an object, at most so many; none if
// it has no name.
func (t *tree) somePaths(n *node, most int) []string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if n.first.parent == nil {
		return nil
	}
	out := []string{t.join(n.first.parent, n.first.name)}
	if n.more != nil {
		for _, r := range (*n.more)[:min(most-1, len(*n.more))] {
			out = append(out, t.join(r.parent, r.name))
		}
	}
	return out
}

// fewNames is how many names of an object are looked at where one that allows
// is enough: of an object with thousands of names, not all at every look-up.
const fewNames = 16

// fewPaths is paths, but at most fewNames of them.
func (t *tree) fewPaths(n *node) []string {
	t.mu.RLock()
	many := n.more != nil && len(*n.more) >= fewNames
	t.mu.RUnlock()
	if many {
		if p := t.somePaths(n, fewNames); len(p) > 0 {
			return p
		}
	}
	return t.paths(n)
}

// sole returns the one known name of an object; ok is false if it has another
// number of them.
func (t *tree) sole(n *node) (r nameRef, ok bool) {
	t.mu.RLock()
	r, ok = n.first, n.first.parent != nil && n.more == nil
	t.mu.RUnlock()
	return r, ok
}

// nth returns the known names one by one.
func (t *tree) nth(n *node, i int) (nameRef, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	switch {
	case i == 0:
		return n.first, n.first.parent != nil
	case n.more != nil && i <= len(*n.more):
		return (*n.more)[i-1], true
	}
	return nameRef{}, false
}

// refs is a copy of the known names.
func (t *tree) refs(n *node) []nameRef {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []nameRef
	n.eachName(func(r nameRef) { out = append(out, r) })
	return out
}
