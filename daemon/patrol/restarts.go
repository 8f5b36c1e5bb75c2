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
type Restarts struct{ at map[string]restarted }

// restarted are the restarts of the agent that was added at created.
type restarted struct {
	created time.Time
	at      []time.Time
}

// Take records a restart of the agent of this name that was added at created. It refuses one too
// many.
func (r *Restarts) Take(agent string, created, now time.Time) error {
	var kept []time.Time
	if of := r.at[agent]; of.created.Equal(created) {
		for _, t := range of.at {
			if now.Sub(t) < restartTime {
				kept = append(kept, t)
			}
		}
	}
	if len(kept) >= maxRestarts {
		return api.Errorf(api.CodeBadState, "agent %s was restarted %d times in %s: a person has to find out why", agent, len(kept), restartTime)
	}
	if r.at == nil {
		r.at = map[string]restarted{}
	}
	r.at[agent] = restarted{created, append(kept, now)}
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
