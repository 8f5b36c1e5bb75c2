package agent

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"

	"polis/daemon/api"
)

// checkSaid refuses what is no text for a person to say. A control character would act on the terminal that
// the text is typed into, or that its record is shown on.
func checkSaid(text string) error {
	if strings.TrimSpace(text) == "" || len(text) > api.MaxSaid || !utf8.ValidString(text) {
		return api.Errorf(api.CodeBadRequest, "text has %d bytes: it must be UTF-8 text of 1 to %d bytes", len(text), api.MaxSaid).
			WithHint("write a long text to a file of the project, and say its name")
	}
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if i := strings.IndexFunc(text, control); i >= 0 {
		r, _ := utf8.DecodeRuneInString(text[i:])
		return api.Errorf(api.CodeBadRequest, "text has the control character %U at byte %d", r, i).
			WithHint("leave it out of the text")
	}
	return nil
}

// Say says a text to an agent for the person by. It is typed into a program that is no task, and is a task
// of its own otherwise: at once, or after the present one. One that waits can reach the present task before
// (Said).
func (m *Manager) Say(ctx context.Context, by, name string, req api.SayRequest) (api.SayResponse, error) {
	if err := checkSaid(req.Text); err != nil {
		return api.SayResponse{}, err
	}
	a, err := m.findAny(ctx, name, verbRun)
	if err != nil {
		return api.SayResponse{}, err
	}
	said := api.Said{By: by, Way: api.SayTask}
	m.mu.Lock()
	running, in := a.Kept.Status == api.StatusRunning, a.Kept.InTask
	m.mu.Unlock()
	if over, _ := m.isExiting(a, ""); running && !in && over == nil {
		said.Way = api.SayTyped
		return m.sayTyped(ctx, a, req.Text, said)
	}
	defer a.op.Unlock()
	return m.sayTask(ctx, a, req.Text, said)
}

// sayTyped types a text into the program of an agent. It releases a.op, which is held.
func (m *Manager) sayTyped(ctx context.Context, a *Agent, text string, said api.Said) (api.SayResponse, error) {
	t, err := m.records(a).Create(api.Task{Prompt: text, Command: []string{}, Time: m.Now().UTC(), Via: api.TaskSaid, Said: &said})
	// A program that does not read must not block the agent's other operations.
	a.op.Unlock()
	if err != nil {
		return api.SayResponse{}, err
	}
	if err := m.input(ctx, t, a.Name(), api.SendRequest{Text: text}); err != nil {
		return api.SayResponse{}, err
	}
	return api.SayResponse{Task: t, Message: "typed into the program of agent " + a.Name()}, nil
}

// sayTask makes a text a task that continues the agent's conversation. a.op is held.
func (m *Manager) sayTask(ctx context.Context, a *Agent, text string, said api.Said) (api.SayResponse, error) {
	waiting, err := m.waitingSaid(a)
	if err != nil {
		return api.SayResponse{}, err
	}
	if len(waiting) >= api.MaxSaidWaiting {
		return api.SayResponse{}, api.Errorf(api.CodeQuota, "agent %s has %d texts that wait: that is the limit", a.Name(), len(waiting)).
			WithHint("polisctl tasks %s lists them, polisctl tasks cancel ID drops one", a.Name())
	}
	k := a.Copy()
	t := api.Task{Prompt: text, Command: []string{}, Time: m.Now().UTC(), Ahead: true, Said: &said, Commit: m.config().Roles[k.Role].AutoCommit && !k.ReadOnly}
	if t.Continue = m.continues(a, t); t.Continue {
		t.Model = m.workModel(a)
	}
	said.Way = m.wayOf(ctx, a)
	if t, err = m.assign(ctx, a, t, api.RunRequest{Queue: true}); err != nil {
		return api.SayResponse{}, err
	}
	if t.State != api.TaskQueued {
		m.changeTask(a, t.ID, func(t *api.Task) { t.Said.Way = api.SayTask })
		now := *t.Said
		now.Way = api.SayTask
		t.Said = &now
	}
	return api.SayResponse{Task: t, Message: sayMessage(t)}, nil
}

// sayMessage describes the delivery of a text that is a task.
func sayMessage(t api.Task) string {
	after, turn := "", "as a task of its own: its program does not continue its last session"
	if t.Continue {
		turn = "in the same conversation"
	}
	if t.Waits != nil && t.Waits.Task != "" {
		after = " after " + t.Waits.Task + " ends"
	}
	switch {
	case t.State != api.TaskQueued:
		return "agent " + t.Agent + " works on it as " + t.ID + ", " + turn
	case t.Said.Way == api.SayToolCall:
		return "agent " + t.Agent + " gets it at its next tool call; if it makes none, it is " + t.ID + after + ", " + turn
	case t.Said.Way == api.SayPrompt:
		return "agent " + t.Agent + " gets it when its present turn ends, in the same session; if there is no other turn, it is " + t.ID + ", a task of its own"
	}
	return "queued as " + t.ID + strings.Replace(after, " ", ", ", 1) + ", " + turn
}

// waitingSaid returns the texts that wait for an agent, the first one first.
func (m *Manager) waitingSaid(a *Agent) ([]api.Task, error) {
	ids, err := m.records(a).In(api.TaskQueued)
	if err != nil {
		return nil, err
	}
	var out []api.Task
	for _, id := range ids {
		t, err := m.records(a).Get(id)
		if err != nil {
			return nil, err
		}
		if t.Said != nil {
			out = append(out, t)
		}
	}
	return out, nil
}

// continues reports whether a task can continue the agent's last session.
func (m *Manager) continues(a *Agent, t api.Task) bool {
	t.Continue = true
	_, _, err := m.taskCommand(a, t, false)
	return err == nil && m.lastBegun(a).ID != ""
}
