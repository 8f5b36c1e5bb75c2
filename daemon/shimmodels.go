package daemon

import "time"

// KeyRefused records that a service refused its key.
func (s *shims) KeyRefused(service string) bool { return s.models.Refused(service) }

// KeysExpired is sent to when agents need new keys.
func (s *shims) KeysExpired() <-chan struct{} { return s.models.Expired() }

// ModelPaused records that a model service asked to wait.
func (s *shims) ModelPaused(service, agent string, until time.Time) bool {
	return s.models.Pause(service, agent, until)
}

// ModelTurns returns how long after the pause of a model service each agent may begin.
func (s *shims) ModelTurns(service string, agents []string) map[string]time.Duration {
	return s.models.Turns(service, agents)
}
