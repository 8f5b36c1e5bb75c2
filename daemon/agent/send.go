package agent

import (
	"context"
	"sort"
	"strings"
	"sync"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// Send types a line into the terminal, or the standard input, of what an agent
// runs. It is a task like any other, and is logged as one.
func (m *Manager) Send(ctx context.Context, name string, req api.SendRequest) (api.Task, error) {
	return m.send(ctx, name, req, api.TaskSent)
}

func (m *Manager) send(ctx context.Context, name string, req api.SendRequest, via string) (api.Task, error) {
	if err := checkText(req.Text); err != nil {
		return api.Task{}, err
	}
	a, err := m.findFor(ctx, name, verbSend)
	if err != nil {
		return api.Task{}, err
	}
	sent, err := m.logSent(a, req.Text, via)
	// A program that does not read must not block the agent's other operations.
	a.op.Unlock()
	if err != nil {
		return api.Task{}, err
	}
	if err := m.input(ctx, sent, name, req); err != nil {
		return api.Task{}, err
	}
	return sent, nil
}

// logSent records input that was sent to a Running agent, with its tasks (property 25).
func (m *Manager) logSent(a *Agent, text, via string) (api.Task, error) {
	return m.records(a).Create(api.Task{Prompt: text, Command: []string{}, Time: m.Now().UTC(), Via: via})
}

// input passes what was logged as sent to the agent's program.
func (m *Manager) input(ctx context.Context, sent api.Task, name string, req api.SendRequest) error {
	sh := m.Shims.Dial(name)
	defer sh.Close()
	if err := sh.Input(ctx, wire.InputRequest{Text: req.Text, NoEnter: req.NoEnter}); err != nil {
		return err
	}
	m.publishTask(sent, "agent "+name+" got input")
	return nil
}

func checkText(text string) error {
	if strings.TrimSpace(text) == "" || strings.ContainsRune(text, 0) || len(text) > wire.MaxInput {
		return api.Errorf(api.CodeBadRequest, "text has %d bytes: it must be text of 1 to %d bytes without NUL", len(text), wire.MaxInput)
	}
	return nil
}

// Broadcast sends to all agents of a workspace ("" = all) that are Running, at once, and returns
// the result of each (property 23). by is the person who does.
func (m *Manager) Broadcast(ctx context.Context, by string, req api.BroadcastRequest) (api.BroadcastResponse, error) {
	if err := checkText(req.Text); err != nil {
		return api.BroadcastResponse{}, err
	}
	if req.Say {
		if err := checkSaid(req.Text); err != nil {
			return api.BroadcastResponse{}, err
		}
	}
	if req.Workspace != "" {
		w, err := m.Workspace(req.Workspace)
		if err != nil {
			return api.BroadcastResponse{}, err
		}
		req.Workspace = w.Name
	}
	var names []string
	m.mu.Lock()
	for _, a := range m.agents {
		if a.Kept.Status == api.StatusRunning && (req.Workspace == "" || a.WS.Name == req.Workspace) {
			names = append(names, a.Name())
		}
	}
	m.mu.Unlock()
	sort.Strings(names)
	resp := api.BroadcastResponse{Results: make([]api.BroadcastResult, len(names))}
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() {
			resp.Results[i].Agent = name
			var err error
			if req.Say {
				_, err = m.Say(ctx, by, name, api.SayRequest{Text: req.Text})
			} else {
				_, err = m.send(ctx, name, api.SendRequest{Text: req.Text}, api.TaskBroadcast)
			}
			if err != nil {
				resp.Results[i].Error = api.AsError(err)
			}
		})
	}
	wg.Wait()
	return resp, nil
}
