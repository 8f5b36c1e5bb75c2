package shim

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"polis/daemon/api"
)

// repeatAfter is the interval of events about a limit that is reached repeatedly.
const repeatAfter = 10 * time.Second

// hits are the limits the agent has reached, by name.
type hits struct {
	mu       sync.Mutex
	m        map[string]api.LimitHit
	reported map[string]time.Time
}

// hit records one, and reports whether to emit an event.
func (h *hits) hit(limit string, count uint64, now time.Time) (report bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.m == nil {
		h.m, h.reported = map[string]api.LimitHit{}, map[string]time.Time{}
	}
	h.m[limit] = api.LimitHit{Limit: limit, Count: max(count, h.m[limit].Count+1), Last: now}
	if at, ok := h.reported[limit]; ok && now.Sub(at) < repeatAfter {
		return false
	}
	h.reported[limit] = now
	return true
}

// due reports whether a limit may emit another event.
func (h *hits) due(limit string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return now.Sub(h.reported[limit]) >= repeatAfter
}

func (h *hits) list() []api.LimitHit {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []api.LimitHit
	for _, name := range slices.Sorted(maps.Keys(h.m)) {
		out = append(out, h.m[name])
	}
	return out
}

// watchPids emits events for forks that the process limit refused.
func (s *Shim) watchPids(forks <-chan uint64) {
	for n := range forks {
		if !s.hits.hit("pids", n, time.Now()) {
			continue
		}
		limit := s.settings().Pids
		s.events.Publish(api.Event{Type: api.EventPids, Agent: s.Spec.Agent, Code: api.CodePidsLimit,
			Message: fmt.Sprintf("agent %s has as many processes as it may (%d): %d forks were refused", s.Spec.Agent, limit, n),
			Data:    map[string]any{"limit": limit, "refused": n}})
	}
}
