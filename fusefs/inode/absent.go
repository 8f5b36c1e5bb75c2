package inode

import "sync"

// maxAbsent bounds the names whose absence the kernel may cache. Beyond it a negative answer is
// not cached.
const maxAbsent = 32768

// Absents are the names whose absence the kernel may have cached: it must be invalidated if they
// appear otherwise than through the view.
type Absents struct {
	mu sync.Mutex
	n  int
	m  map[uint64]map[string]struct{} // by directory
}

// Add records a name and reports whether there was room for it.
func (a *Absents) Add(dir uint64, name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.m[dir]
	if _, ok := names[name]; ok {
		return true
	}
	if a.n >= maxAbsent {
		return false
	}
	if a.m == nil {
		a.m = map[uint64]map[string]struct{}{}
	}
	if names == nil {
		names = map[string]struct{}{}
		a.m[dir] = names
	}
	names[string([]byte(name))] = struct{}{} // it may be part of a request buffer
	a.n++
	return true
}

// Cut forgets a name that exists now.
func (a *Absents) Cut(dir uint64, name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.m[dir]
	if _, ok := names[name]; !ok {
		return
	}
	a.n--
	if delete(names, name); len(names) == 0 {
		delete(a.m, dir)
	}
}

// Take forgets the names of a directory and returns them.
func (a *Absents) Take(dir uint64) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	names := a.m[dir]
	if names == nil {
		return nil
	}
	delete(a.m, dir)
	a.n -= len(names)
	out := make([]string, 0, len(names))
	for name := range names {
		out = append(out, name)
	}
	return out
}

// Absent is one name of Absents.
type Absent struct {
	Dir  uint64
	Name string
}

// All is a copy of the names.
func (a *Absents) All() []Absent {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]Absent, 0, a.n)
	for dir, names := range a.m {
		for name := range names {
			out = append(out, Absent{dir, name})
		}
	}
	return out
}
