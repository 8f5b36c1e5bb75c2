package patrol

import (
	"time"

	"polis/daemon/api"
)

// maxRestarts is how often an agent is restarted in restartTime.
const (
	maxRestarts = 3
	restartTime = 24 * time.Hour
)

// Restarts bounds how often stalled agents are restarted. The zero value has none.
type Restarts struct{ at map[string][]time.Time }

// Take records a restart of an agent. It refuses one too many.
func (r *Restarts) Take(agent string, now time.Time) error {
	var kept []time.Time
	for _, t := range r.at[agent] {
		if now.Sub(t) < restartTime {
			kept = append(kept, t)
		}
	}
	if len(kept) >= maxRestarts {
		return api.Errorf(api.CodeBadState, "agent %s was restarted %d times in %s: a person has to find out why", agent, len(kept), restartTime)
	}
	if r.at == nil {
		r.at = map[string][]time.Time{}
	}
	r.at[agent] = append(kept, now)
	return nil
}

// Forget drops the record of every agent for which lives is false.
func (r *Restarts) Forget(lives func(agent string) bool) {
	for name := range r.at {
		if !lives(name) {
			delete(r.at, name)
		}
	}
}
