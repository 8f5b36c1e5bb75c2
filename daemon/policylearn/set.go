package policylearn

import (
	"maps"
	"slices"
	"strings"
)

// Bounds of a Set: the number of its paths, and their total length in bytes.
const (
	MaxUses  = 20000
	MaxBytes = 2 << 20
)

// Use is something that an agent did with a path, relative to the repository's root.
type Use struct {
	Path  string `json:"path"`
	Write bool   `json:"write,omitempty"`
	// Dir: a directory was made or removed.
	Dir bool `json:"dir,omitempty"`
	// Tree stands for anything below the directory Path: there was too much to keep it all.
	Tree bool `json:"tree,omitempty"`
}

// Set is a bounded set of uses. The zero value is empty and ready to use.
type Set struct {
	uses  map[Use]struct{}
	bytes int
	// MaxUses and MaxBytes are the bounds; 0: the constants.
	MaxUses, MaxBytes int
}

// Add adds a use, and reports whether the set has changed. A set that has too many becomes coarser:
// the deepest paths become trees.
func (s *Set) Add(u Use) bool {
	if s.has(u) {
		return false
	}
	if s.uses == nil {
		s.uses = map[Use]struct{}{}
	}
	s.put(u)
	for depth := s.depth(); s.full() && depth > 0; depth-- {
		s.cut(depth - 1)
	}
	return true
}

func (s *Set) put(u Use) {
	if _, there := s.uses[u]; !there {
		s.uses[u] = struct{}{}
		s.bytes += len(u.Path)
	}
}

func (s *Set) full() bool {
	most, bytes := s.MaxUses, s.MaxBytes
	if most == 0 {
		most = MaxUses
	}
	if bytes == 0 {
		bytes = MaxBytes
	}
	return len(s.uses) > most || s.bytes > bytes
}

// has reports whether the use, or a tree that it is in, is there.
func (s *Set) has(u Use) bool {
	if _, ok := s.uses[u]; ok {
		return true
	}
	for path := u.Path; ; {
		if _, ok := s.uses[Use{Path: path, Write: u.Write, Tree: true}]; ok && (path != u.Path || u.Dir || u.Tree) {
			return true
		}
		i := strings.LastIndexByte(path, '/')
		if i < 0 {
			break
		}
		path = path[:i]
	}
	_, ok := s.uses[Use{Write: u.Write, Tree: true}]
	return ok
}

// depth is the number of directories above the deepest path.
func (s *Set) depth() (deepest int) {
	for u := range s.uses {
		deepest = max(deepest, depthOf(u))
	}
	return deepest
}

// depthOf is the number of names in the path; a tree of the root has none.
func depthOf(u Use) int {
	if u.Path == "" {
		return 0
	}
	return strings.Count(u.Path, "/") + 1
}

// cut replaces what has more than so many names by trees.
func (s *Set) cut(depth int) {
	for _, u := range slices.Collect(maps.Keys(s.uses)) {
		if depthOf(u) <= depth {
			continue
		}
		delete(s.uses, u)
		s.bytes -= len(u.Path)
		s.put(Use{Path: ancestor(u.Path, depth), Write: u.Write, Tree: true})
	}
}

// ancestor is the directory of the first names of a path.
func ancestor(path string, names int) string {
	end := 0
	for range names {
		i := strings.IndexByte(path[end:], '/')
		if i < 0 {
			return path
		}
		end += i + 1
	}
	return strings.TrimSuffix(path[:end], "/")
}

// Coarse reports whether the set has trees instead of what was used.
func (s *Set) Coarse() bool {
	for u := range s.uses {
		if u.Tree {
			return true
		}
	}
	return false
}

// Uses returns the uses in the order of their paths.
func (s *Set) Uses() []Use { return sorted(slices.Collect(maps.Keys(s.uses))) }

func sorted(uses []Use) []Use {
	slices.SortFunc(uses, func(a, b Use) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return rank(a) - rank(b)
	})
	return uses
}

func rank(u Use) (n int) {
	for i, b := range []bool{u.Write, u.Dir, u.Tree} {
		if b {
			n |= 1 << i
		}
	}
	return n
}
