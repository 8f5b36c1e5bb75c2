package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
)

// pauseTime bounds the request that has a shim wait for a model service.
const pauseTime = 5 * time.Second

// modelPaused has all agents wait for a model service that asked one of them to wait: otherwise each
// of them would send requests that fail, and prolong the wait. After it they begin in turn.
func (m *Manager) modelPaused(a *Agent, e api.Event) {
	service, _ := e.Data["service"].(string)
	text, _ := e.Data["until"].(string)
	until, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || !m.Shims.ModelPaused(service, a.Name(), until) {
		return
	}
	m.Log.Info("model service asked to wait", "service", service, "until", until, "agent", a.Name())
	m.Events.Publish(api.Event{Type: api.EventModelPaused, Agent: a.Name(), Message: fmt.Sprintf("model service %s asked to wait until %s; requests to it wait", service, until.Format(time.TimeOnly)),
		Data: map[string]any{"service": service, "until": text}})
	m.mu.Lock()
	var all []string
	for name, o := range m.agents {
		if o.up && !o.foreign && m.cfgLive.UsesModel(o.Kept.Role, service) {
			all = append(all, name)
		}
	}
	m.mu.Unlock()
	turns := m.Shims.ModelTurns(service, all)
	for _, name := range all {
		m.wg.Go(func() {
			ctx, cancel := context.WithTimeout(m.ctx, pauseTime)
			defer cancel()
			sh := m.Shims.Dial(name)
			defer sh.Close()
			req := wire.PauseRequest{Name: service, Until: until, Turn: setting.Duration(turns[name])}
			st, err := sh.Status(ctx)
			if err == nil && st.Version < wire.TurnVersion {
				req.Turn = 0
			}
			if err = errors.Join(err, sh.PauseModel(ctx, req)); err != nil {
				m.Log.Debug("pause of a model service not sent", "agent", name, "err", err)
			}
		})
	}
}

// sendTime bounds the request that gives a shim its services; a command that prints a key is a part of it.
const sendTime = 30 * time.Second

// renewKeys gives all agents new keys when the present ones have become old, until ctx ends.
func (m *Manager) renewKeys(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.Shims.KeysExpired():
			m.sendModels()
		}
	}
}

// keyRefused gives all agents new keys when a service has refused the one of an agent and there is another one. Else
// it sends the agent what it has: its request waits for that.
func (m *Manager) keyRefused(a *Agent, e api.Event) {
	service, _ := e.Data["service"].(string)
	if !m.Shims.KeyRefused(service) {
		m.sendModelsTo(a)
		return
	}
	m.Log.Info("service refused its key", "service", service, "agent", a.Name())
	m.sendModels()
}

// sendModels gives all agents that are up their services, with the present keys.
func (m *Manager) sendModels() {
	m.mu.Lock()
	var up []*Agent
	for _, a := range m.agents {
		if a.up && !a.foreign {
			up = append(up, a)
		}
	}
	m.mu.Unlock()
	m.sendModelsTo(up...)
}

// sendModelsTo sends an agent one set of services at a time: an older one must not replace a newer one.
func (m *Manager) sendModelsTo(agents ...*Agent) {
	for _, a := range agents {
		m.wg.Go(func() {
			a.sending.Lock()
			defer a.sending.Unlock()
			ctx, cancel := context.WithTimeout(m.ctx, sendTime)
			defer cancel()
			if err := m.Shims.SendModels(ctx, a); err != nil && ctx.Err() == nil {
				m.Log.Warn("model services not applied", "agent", a.Name(), "err", err, "hint", api.AsError(err).Hint)
			}
		})
	}
}
