package launch

import (
	"polis/daemon/agent"
	"polis/daemon/agent/models"
	"polis/daemon/api/setting"
)

import "time"

// KeyRefused records that a service refused its key.
func (s *Shims) KeyRefused(service string) bool { return s.models.Refused(service) }

// KeysExpired is sent to when agents need new keys.
func (s *Shims) KeysExpired() <-chan struct{} { return s.models.Expired() }

// ModelPaused records that a model service asked to wait.
func (s *Shims) ModelPaused(service, agent string, until time.Time) bool {
	return s.models.Pause(service, agent, until)
}

// ModelTurns returns how long after the pause of a model service each agent may begin.
func (s *Shims) ModelTurns(service string, agents []string) map[string]time.Duration {
	return s.models.Turns(service, agents)
}

// RenewModels has keys read again, after the configuration has changed.
func (s *Shims) RenewModels() { s.models.Renew() }

// ModelsSpent returns why the agents of a family have no model budget left; "" if they have. What cannot be
// counted is not left.
func (s *Shims) ModelsSpent(a *agent.Agent, family []agent.Relative) string {
	c := s.Config()
	bounds := c.GatewayOf(a.Copy().Role).ModelBudget
	if bounds == (setting.ModelBudget{}) {
		return ""
	}
	var all []models.Relative
	for _, f := range family {
		all = append(all, models.Relative{Dir: a.WS.Root.Logs(f.Name), Task: f.Task, InTask: f.InTask})
	}
	st, err := s.Book.Family(bounds, all, time.Now())
	switch {
	case err != nil:
		return "it is not known: " + err.Error()
	case st.Spent():
		return st.Text
	}
	return ""
}
