package firewall

import (
	"sync"
	"time"

	"polis/daemon/api"
)

// State remembers who drops the packets of agents, and who did last.
type State struct {
	mu      sync.Mutex
	blocked *api.Error // by whom; nil if packets pass
	last    *api.Error // blocked before, until ended
	ended   time.Time
}

// Note takes the result of a test. began is set if another firewall has begun to drop packets, or another one does;
// ended is who did until now, if packets pass again.
func (s *State) Note(blocked *api.Error, now time.Time) (began bool, ended *api.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.blocked
	s.blocked = blocked
	if blocked != nil {
		return before == nil || before.Message != blocked.Message, nil
	}
	if before != nil {
		s.last, s.ended = before, now
	}
	return false, before
}

// Blocked is who has dropped packets of agents at any time since then, nil if nobody has. With the zero time it is who
// does now.
func (s *State) Blocked(since time.Time) *api.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.blocked == nil && s.last != nil && !since.IsZero() && s.ended.After(since) {
		return s.last
	}
	return s.blocked
}
