package agent

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/task"
)

// takeTime bounds the wait of an agent's program for another operation on the agent.
const takeTime = 3 * time.Second

// wayOf returns the way of a text that has to wait for the agent's present task. a.op is held.
func (m *Manager) wayOf(ctx context.Context, a *Agent) api.SayWay {
	id := m.presentTask(a)
	t, err := m.records(a).Get(id)
	if id == "" || err != nil {
		return api.SayQueued
	}
	ctx, cancel := context.WithTimeout(ctx, screenTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil || st.Version < wire.SaidVersion {
		return api.SayQueued
	}
	switch {
	case t.Stream == "acp":
		return api.SayPrompt
	case st.Said:
		return api.SayToolCall
	}
	return api.SayQueued
}

// presentTask returns the ID of the task that the agent works on; "" if there is none.
func (m *Manager) presentTask(a *Agent) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !a.Kept.InTask {
		return ""
	}
	return a.Kept.Task
}

// Said returns the first text that waits for an agent, or marks that the program of its present task takes
// it. A text that is taken does not become a task of its own, and one that has become a task, or was
// cancelled, cannot be taken: so it is delivered once. The mark is on disk before the program has the text.
func (m *Manager) Said(ctx context.Context, name string, req api.SaidRequest) (api.SaidResponse, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.SaidResponse{}, err
	}
	if req.Take == "" {
		waiting, err := m.waitingSaid(a)
		if err != nil || len(waiting) == 0 || m.presentTask(a) == "" {
			return api.SaidResponse{}, err
		}
		return saidText(waiting[0]), nil
	}
	if req.By == "" || len(req.By) > api.MaxSaidBy {
		return api.SaidResponse{}, api.Errorf(api.CodeBadRequest, "by has %d bytes: from 1 to %d", len(req.By), api.MaxSaidBy)
	}
	ctx, cancel := context.WithTimeout(ctx, takeTime)
	defer cancel()
	// Whatever begins or cancels a task holds it as well.
	if a, err = m.find(ctx, name); err != nil {
		return api.SaidResponse{}, err
	}
	defer a.op.Unlock()
	return m.takeSaid(a, req)
}

// takeSaid marks a text as delivered to the present task. a.op is held.
func (m *Manager) takeSaid(a *Agent, req api.SaidRequest) (api.SaidResponse, error) {
	t, err := m.records(a).Get(req.Take)
	if err != nil {
		return api.SaidResponse{}, err
	}
	to := m.presentTask(a)
	switch {
	case t.Said != nil && t.Said.Taker == req.By: // the answer did not arrive
		return saidText(t), nil
	case t.Said == nil || t.State != api.TaskQueued || to == "":
		return api.SaidResponse{}, nil
	}
	if err := m.writable(a); err != nil {
		return api.SaidResponse{}, err
	}
	now, was := m.Now().UTC(), t
	said := *t.Said
	was.Said = &said
	t, err = m.records(a).Update(req.Take, func(t *api.Task) {
		t.Said.To, t.Said.At, t.Said.Taker = to, &now, req.By
		task.Finish(t, task.End{At: now, By: api.EndSaid})
	})
	if api.CodeOf(err) == api.CodeStateNotSaved { // after a crash of polisd the text would wait again
		m.changeTask(a, was.ID, func(t *api.Task) { *t = was })
	}
	if err != nil {
		return api.SaidResponse{}, err
	}
	m.publishTask(t, "text "+t.ID+" was delivered to task "+to+" of agent "+a.Name())
	return saidText(t), nil
}

func saidText(t api.Task) api.SaidResponse {
	return api.SaidResponse{ID: t.ID, Text: t.Prompt, From: t.Said.By}
}
