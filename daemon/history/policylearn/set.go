package policylearn

import (
	"cmp"
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
	// Dir: a directory was made or removed, or with Attr its mode, owner, times or attributes were set.
	Dir  bool `json:"dir,omitempty"`
	Attr bool `json:"attr,omitempty"`
	// Tree stands for the directory Path and anything below it: it was moved as a whole, or there was
	// too much to keep it all.
	Tree bool `json:"tree,omitempty"`
}

// Set is a bounded set of uses. The zero value is empty and ready to use.
type Set struct {
	uses   map[Use]struct{}
	bytes  int
	coarse bool
	// MaxUses and MaxBytes are the bounds; 0: the constants.
	MaxUses, MaxBytes int
}

// Add adds a use, and reports whether the set has changed. A set that has too many becomes coarser: the
// directories with most uses become trees, and if that is not enough, the deepest paths.
func (s *Set) Add(u Use) bool {
	if s.has(u) {
		return false
	}
	if s.uses == nil {
		s.uses = map[Use]struct{}{}
	}
	s.put(u)
	if s.full() {
		s.coarsen()
	}
	return true
}

// coarsen makes room, for a quarter of the bounds if possible: it is not called again soon.
func (s *Set) coarsen() {
	s.coarse = true
	s.joinWidest()
	for depth := s.depth(); s.full() && depth > 0; depth-- {
		s.cut(depth - 1)
	}
}

// joinWidest makes trees of the directories with most uses directly in them, until a quarter is free.
func (s *Set) joinWidest() {
	type dir struct {
		path  string
		write bool
	}
	count, bytes := map[dir]int{}, map[dir]int{}
	for u := range s.uses {
		if i := strings.LastIndexByte(u.Path, '/'); i > 0 {
			d := dir{u.Path[:i], u.Write}
			count[d]++
			bytes[d] += len(u.Path)
		}
	}
	most, limit := s.limits()
	n, size := len(s.uses)-most*3/4, s.bytes-limit*3/4
	join := map[dir]bool{}
	for _, d := range slices.SortedFunc(maps.Keys(count), func(a, b dir) int {
		if c := cmp.Or(count[b]-count[a], strings.Compare(a.path, b.path)); c != 0 || a.write == b.write {
			return c
		}
		return rank(Use{Write: a.write}) - rank(Use{Write: b.write})
	}) {
		if n <= 0 && size <= 0 || count[d] < 2 {
			break
		}
		join[d] = true
		n, size = n-count[d]+1, size-bytes[d]+len(d.path)
	}
	for _, u := range slices.Collect(maps.Keys(s.uses)) {
		for i := strings.IndexByte(u.Path, '/'); i > 0; {
			if join[dir{u.Path[:i], u.Write}] {
				delete(s.uses, u)
				s.bytes -= len(u.Path)
				s.put(Use{Path: u.Path[:i], Write: u.Write, Tree: true})
				break
			}
			j := strings.IndexByte(u.Path[i+1:], '/')
			if j < 0 {
				break
			}
			i += 1 + j
		}
	}
}

func (s *Set) put(u Use) {
	if _, there := s.uses[u]; !there {
		s.uses[u] = struct{}{}
		s.bytes += len(u.Path)
	}
}

func (s *Set) full() bool {
	most, bytes := s.limits()
	return len(s.uses) > most || s.bytes > bytes
}

func (s *Set) limits() (uses, bytes int) {
	return cmp.Or(s.MaxUses, MaxUses), cmp.Or(s.MaxBytes, MaxBytes)
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

// Coarse reports whether the set has trees instead of what was used, because it was full.
func (s *Set) Coarse() bool { return s.coarse }

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
	for i, b := range []bool{u.Write, u.Dir, u.Tree, u.Attr} {
		if b {
			n |= 1 << i
		}
	}
	return n
}
