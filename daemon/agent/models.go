package agent

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/shim/wire"
)

// pauseTime bounds the request that has a shim wait for a model service.
const pauseTime = 5 * time.Second

// modelPaused has all other agents wait for a model service that asked an agent to wait: otherwise each
// of them would send requests that fail, and prolong the wait.
func (m *Manager) modelPaused(a *Agent, e api.Event) {
	service, _ := e.Data["service"].(string)
	text, _ := e.Data["until"].(string)
	until, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !m.Shims.ModelPaused(service, until) {
		return
	}
	m.Log.Info("model service asked to wait", "service", service, "until", until, "agent", a.Name())
	m.Events.Publish(api.Event{Type: api.EventModelPaused, Agent: a.Name(), Message: fmt.Sprintf("model service %s asked to wait until %s; requests to it wait", service, until.Format(time.TimeOnly)),
		Data: map[string]any{"service": service, "until": text}})
	m.mu.Lock()
	var others []string
	for name, o := range m.agents {
		if o != a && o.up && !o.foreign {
			others = append(others, name)
		}
	}
	m.mu.Unlock()
	for _, name := range others {
		m.wg.Go(func() {
			ctx, cancel := context.WithTimeout(m.ctx, pauseTime)
			defer cancel()
			sh := m.Shims.Dial(name)
			defer sh.Close()
			if err := sh.PauseModel(ctx, wire.PauseRequest{Name: service, Until: until}); err != nil {
				m.Log.Debug("pause of a model service not sent", "agent", name, "err", err)
			}
		})
	}
}
