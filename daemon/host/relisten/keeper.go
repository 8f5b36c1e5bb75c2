package relisten

import (
	"sync"
	"time"
)

// quiet is how long equal reports about a socket are counted before there is another one.
const quiet = time.Minute

// Keeper checks sockets and reports what it found. Assign Report before the first check.
type Keeper struct {
	// Report is called during a check.
	Report func(Report)

	mu      sync.Mutex
	sockets []*kept
}

type kept struct {
	l    *Listener
	text string // of the last report
	at   time.Time
	n    int
}

// Add adds a socket to those that are checked.
func (k *Keeper) Add(l *Listener) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sockets = append(k.sockets, &kept{l: l})
}

// Check checks all sockets.
func (k *Keeper) Check() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.sockets {
		found, err := s.l.Check()
		if found == "" {
			continue
		}
		if r, ok := s.news(Report{Path: s.l.path, Found: found, Err: err}, time.Now()); ok {
			k.Report(r)
		}
	}
}

// news reports whether there is to be a report.
func (s *kept) news(r Report, now time.Time) (Report, bool) {
	text := r.Found
	if r.Err != nil {
		text += r.Err.Error()
	}
	if text == s.text && now.Sub(s.at) < quiet {
		s.n++
		return r, false
	}
	if text == s.text {
		r.Count = s.n
	}
	s.text, s.at, s.n = text, now, 0
	return r, true
}
