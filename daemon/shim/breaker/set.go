package breaker

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"polis/daemon/api"
)

const (
	// minute is the window of the counts, in seconds.
	minute = 60
	// shown is how many of the last counted things, and of their processes, a trip names.
	shown = 8
	// maxKept bounds the distinct things that a window keeps, and the names that are known.
	maxKept = 1 << 20
	maxText = 512 // bytes of one thing
)

// Set is an agent's breakers. Set Trip and Now, then SetLimits.
type Set struct {
	// Trip is called with the breaker that tripped and the last processes, in the goroutine that
	// counted.
	Trip func(t api.Trip, pids []uint32)
	Now  func() time.Time

	limits atomic.Pointer[api.Breakers] // nil: all are off, or one has tripped

	mu        sync.Mutex
	now       api.Breakers
	denials   window
	deletions window
	written   window
	names     window
	known     map[string]bool // names that were resolved before
	command   string
	repeats   int64
}

// SetLimits replaces the limits. The counts stay.
func (s *Set) SetLimits(l api.Breakers) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = l
	s.arm()
}

// Reset sets all counts to zero, and counts again after a trip.
func (s *Set) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.denials, s.deletions, s.written, s.names, s.command, s.repeats = window{}, window{}, window{}, window{}, "", 0
	s.arm()
}

// arm enables the breakers that have a limit. mu is held.
func (s *Set) arm() {
	if s.now == (api.Breakers{}) {
		s.limits.Store(nil)
		return
	}
	l := s.now
	s.limits.Store(&l)
}

// Limits returns the limits that apply. All are 0 if nothing is counted.
func (s *Set) Limits() api.Breakers {
	if l := s.limits.Load(); l != nil {
		return *l
	}
	return api.Breakers{}
}

// Denied counts n refusals.
func (s *Set) Denied(n int64, what string, pid uint32) {
	if l := s.limits.Load(); l != nil && l.Denials > 0 {
		s.count(api.BreakerDenials, &s.denials, n, "", what, pid)
	}
}

// Deleted counts the deletion of a path, once a minute however often it is deleted.
func (s *Set) Deleted(path string, pid uint32) {
	if l := s.limits.Load(); l != nil && l.Deletions > 0 {
		s.count(api.BreakerDeletions, &s.deletions, 1, path, path, pid)
	}
}

// CountsDeletions reports whether deletions are counted. If not, the caller need not find out
// whether git tracks the path.
func (s *Set) CountsDeletions() bool {
	l := s.limits.Load()
	return l != nil && l.Deletions > 0
}

// Wrote counts bytes.
func (s *Set) Wrote(n int64) {
	if l := s.limits.Load(); l != nil && l.WrittenMB > 0 && n > 0 {
		s.count(api.BreakerWritten, &s.written, n, "", "", 0)
	}
}

// Resolved counts a name, if it was not resolved before.
func (s *Set) Resolved(name string) {
	if l := s.limits.Load(); l != nil && l.Names > 0 {
		s.count(api.BreakerNames, &s.names, 1, name, name, 0)
	}
}

// Ran counts a command of the agent.
func (s *Set) Ran(command string) {
	l := s.limits.Load()
	if l == nil || l.Repeats <= 0 || command == "" {
		return
	}
	s.mu.Lock()
	command = api.Shorten(command, maxText)
	if s.command != command {
		s.command, s.repeats = command, 0
	}
	s.repeats++
	n := s.repeats
	tripped := n > l.Repeats && s.limits.CompareAndSwap(l, nil)
	s.mu.Unlock()
	if tripped {
		s.Trip(api.Trip{Breaker: api.BreakerRepeats, Count: n, Limit: l.Repeats, Paths: []string{command}}, nil)
	}
}

// count adds to a window, and reports a trip.
func (s *Set) count(name string, w *window, n int64, distinct, what string, pid uint32) {
	now := s.Now()
	s.mu.Lock()
	l := s.limits.Load()
	if l == nil {
		s.mu.Unlock()
		return
	}
	if name == api.BreakerNames {
		if s.known[distinct] {
			s.mu.Unlock()
			return
		}
		if s.known == nil || len(s.known) >= maxKept {
			s.known = map[string]bool{}
		}
		s.known[distinct] = true
	}
	total, since := w.add(now, n, distinct, what, pid)
	limit := limitOf(*l, name)
	if total <= limit || !s.limits.CompareAndSwap(l, nil) {
		s.mu.Unlock()
		return
	}
	t := api.Trip{Breaker: name, Count: total, Limit: limit, Seconds: now.Sub(since).Seconds(), Paths: slices.Clone(w.last)}
	if name == api.BreakerWritten {
		t.Count, t.Limit = total>>20, limit>>20
	}
	pids := slices.Clone(w.pids)
	s.mu.Unlock()
	s.Trip(t, pids)
}

// limitOf is the limit of a window.
func limitOf(l api.Breakers, name string) int64 {
	switch name {
	case api.BreakerDenials:
		return l.Denials
	case api.BreakerDeletions:
		return l.Deletions
	case api.BreakerWritten:
		return l.WrittenMB << 20
	}
	return l.Names
}

// Left returns how many bytes may be written before the breaker trips. ok is false if the breaker
// is off.
func (s *Set) Left() (bytes int64, ok bool) {
	l := s.limits.Load()
	if l == nil || l.WrittenMB <= 0 {
		return 0, false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written.expire(s.Now())
	return max(0, l.WrittenMB<<20-s.written.total), true
}
