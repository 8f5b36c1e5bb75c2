package changed

import (
	"cmp"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
)

const (
	// MaxPaths and MaxBytes bound a set: its paths and their lengths together.
	MaxPaths = 16 << 10
	MaxBytes = 1 << 20
)

// Path is one member of a set.
type Path struct {
	// Name is relative to the root of the view, which is "".
	Name string
	// Tree is true if everything below Name may have changed with it.
	Tree bool
}

// Cut is what a set has at a cut.
type Cut struct {
	// ID names the cut. The next call passes it on if all that this one has is dealt with.
	ID string
	// Paths are those that may have changed since the cut that the caller named, in order.
	Paths []Path
	// Whole is why the paths are not known, and the whole tree must be read; "" if they are.
	Whole string
}

// Set collects paths. It is safe for concurrent use. Make it with New.
type Set struct {
	name string

	mu    sync.Mutex
	n     uint64 // number of cuts
	now   part   // since the last cut
	last  part   // between the last two, until the caller has dealt with them
	older string // name of the cut before the last
}

// part is what was collected between two cuts.
type part struct {
	paths map[string]bool // the value is Path.Tree
	bytes int
	lost  string
}

// New returns an empty set.
func New() *Set { return &Set{name: rand.Text()} }

// Add adds a path that is about to change, and returns the number of cuts.
func (s *Set) Add(name string, tree bool) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.add(name, tree)
	return s.n
}

// Again adds a path that has changed if there was a cut since Add returned n.
func (s *Set) Again(name string, tree bool, n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n != n {
		s.now.add(name, tree)
	}
}

// Lose notes that anything may have changed. why is for people.
func (s *Set) Lose(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.lose(why)
}

// Take makes a cut and returns what may have changed since the one that since names: the last one, or the
// one before it if the caller did not deal with the last.
func (s *Set) Take(since string) Cut {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out Cut
	switch {
	case since == "":
		out.Whole = "it is the first time"
	case since == s.id():
		s.last = part{}
	case since != s.older:
		out.Whole = "the view was served by another process, or the checkpoint is not the last one"
	}
	if out.Whole == "" {
		out.Whole = cmp.Or(s.last.lost, s.now.lost)
	}
	s.older = since
	if out.Whole != "" {
		// What the caller reads now has everything; if it fails, the set it names next is lost too.
		s.older, s.last, s.now = "", part{}, part{}
		s.n++
		out.ID = s.id()
		return out
	}
	for name, tree := range s.now.paths {
		s.last.add(name, tree)
	}
	if s.last.lost != "" {
		out.Whole, s.last = s.last.lost, part{lost: s.last.lost}
	}
	s.now = part{}
	s.n++
	out.ID = s.id()
	for name, tree := range s.last.paths {
		out.Paths = append(out.Paths, Path{name, tree})
	}
	slices.SortFunc(out.Paths, func(a, b Path) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// id names the last cut. s.mu is held.
func (s *Set) id() string {
	if s.n == 0 {
		return ""
	}
	return s.name + "." + strconv.FormatUint(s.n, 10)
}

func (p *part) add(name string, tree bool) {
	if p.lost != "" {
		return
	}
	if was, ok := p.paths[name]; ok {
		if tree && !was {
			p.paths[strings.Clone(name)] = true
		}
		return
	}
	for i := range len(name) {
		if name[i] == '/' && p.paths[name[:i]] {
			return // all below a new or moved directory is read
		}
	}
	if len(p.paths) >= MaxPaths || p.bytes+len(name) > MaxBytes {
		p.lose("more files changed than are remembered")
		return
	}
	if p.paths == nil {
		p.paths = map[string]bool{}
	}
	p.paths[strings.Clone(name)] = tree // it may be part of a request buffer
	p.bytes += len(name)
}

func (p *part) lose(why string) { *p = part{lost: why} }
