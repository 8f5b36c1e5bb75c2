package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"polis/daemon/api"
)

const (
	// reworkTime bounds starting one rework: adding an agent, and its task.
	reworkTime = 2 * time.Minute
	// maxReworkNames is how many names are tried for its agent.
	maxReworkNames = 100
)

// FlowAgents are the agents that do reworks.
type FlowAgents interface {
	// Statuses returns the status of every agent by its name; workspace is "".
	Statuses(workspace string) map[string]api.Status
	// Added returns when an agent was added; false if there is none of that name.
	Added(name string) (time.Time, bool)
	// AddLike adds an agent with the rules of another one. CodeAgentExists: name is taken.
	AddLike(ctx context.Context, other, name string) (api.Agent, error)
	// GivenTask returns the newest task of an agent with this prompt, or "".
	GivenTask(name, prompt string) (string, error)
	Run(ctx context.Context, name string, req api.RunRequest) (api.Task, error)
	// WorkModel returns the model of an agent's newest work; "" if none was chosen.
	WorkModel(name string) string
	// ReadsAll reports whether the rules of an agent certainly withhold no file from reading.
	ReadsAll(name string) bool
}

// Reworker gives the failed requests of a FlowBook to agents. Set its fields. It is safe for concurrent
// use; its lock is held while a rework starts, and is taken before that of the FlowBook.
type Reworker struct {
	Workspace string
	Book      *FlowBook
	Agents    FlowAgents
	// Output returns the last lines of the log of a check.
	Output func(log string) (string, error)
	// Save saves the signals, with the agents and their tasks.
	Save    func() error
	Publish func(e api.Event)
	// Halted: no further rework is started by Due.
	Halted func() bool
	Log    *slog.Logger

	mu sync.Mutex
}

// Begin starts the rework of an agent's last failed request, for a person. same: the agent does it
// itself.
func (w *Reworker) Begin(ctx context.Context, agent string, same bool) (api.MergeSignal, error) {
	s, ok := w.Book.Last(agent)
	if !ok || w.gone(s) != nil {
		return s, api.Errorf(api.CodeBadState, "agent %s has no failed merge that a task could resolve", agent).WithHint("polisctl queue shows the last results")
	}
	if s.Rework.State == api.ReworkStarted {
		return s, api.Errorf(api.CodeBadState, "the rework of %s has started: task %s", s.ID, s.Rework.Task).WithHint("polisctl tasks show %s", s.Rework.Task)
	}
	r := *s.Rework
	r.State, r.Same, r.Error = api.ReworkWanted, same, ""
	w.Book.SetRework(s.ID, r)
	s.Rework = &r
	return w.start(ctx, s, true)
}

// Due starts the reworks that the configuration wants, and those that an earlier polisd began.
func (w *Reworker) Due(ctx context.Context) {
	for _, s := range w.Book.Reworks() {
		if ctx.Err() != nil || w.Halted() {
			return
		}
		if _, err := w.start(ctx, s, false); err != nil {
			w.Log.Warn("rework of a merge not started", "workspace", w.Workspace, "agent", s.Agent, "op", "rework", "err", err)
		}
	}
}

// start gives a task to an agent, once: the agent is recorded before it is added, and its task is
// recognised by the prompt. One that cannot be started is offered again. asked: a person wants it now; else the task waits
// behind a lost one of the agent.
func (w *Reworker) start(ctx context.Context, s api.MergeSignal, asked bool) (api.MergeSignal, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reworkTime)
	defer cancel()
	if now, ok := w.Book.Last(s.Agent); !ok || now.ID != s.ID || now.Rework.State == api.ReworkStarted {
		return now, nil // another call did it meanwhile
	}
	r := *s.Rework
	note := func(state api.ReworkState, why string) error {
		r.State, r.Error = state, why
		w.Book.SetRework(s.ID, r)
		s.Rework = &r
		return w.Save()
	}
	fail := func(err error) (api.MergeSignal, error) {
		if ctx.Err() == nil {
			r.Agent = ""
			_ = note(api.ReworkOffered, api.AsError(err).Message) //nolint:errcheck // the save is tried again
		}
		return s, err
	}
	if err := w.gone(s); err != nil {
		return fail(err)
	}
	if r.Agent == "" {
		name, err := w.reworker(s, r.Same)
		if err != nil {
			return fail(err)
		}
		r.Agent = name
	}
	if err := note(api.ReworkStarting, ""); err != nil {
		return s, err
	}
	if !r.Same {
		if _, err := w.Agents.AddLike(ctx, s.Agent, r.Agent); err != nil && api.CodeOf(err) != api.CodeAgentExists {
			return fail(err)
		}
	}
	given, err := w.Agents.GivenTask(r.Agent, r.Prompt+r.Output)
	if err == nil && given == "" {
		// The agent's rules may have changed since the offer, and since a crash: what it may read is decided now.
		if r.Output = w.output(s, r.Agent); r.Output != "" {
			if err := note(api.ReworkStarting, ""); err != nil {
				return s, err
			}
		}
		var t api.Task
		t, err = w.Agents.Run(ctx, r.Agent, api.RunRequest{Prompt: r.Prompt + r.Output, Queue: true, Unasked: !asked, Model: w.Agents.WorkModel(s.Agent)})
		given = t.ID
	}
	if err != nil {
		return fail(err)
	}
	r.Task = given
	if err := note(api.ReworkStarted, ""); err != nil {
		return s, err
	}
	shown := s // without what the check printed: events go to receipts, and to commands of the administrator
	told := r
	told.Output = ""
	shown.Rework = &told
	w.Publish(api.Event{Type: api.EventMergeRework, Agent: s.Agent, Message: fmt.Sprintf("request %s: task %s of agent %s resolves what kept it from being merged", s.ID, r.Task, r.Agent), Data: map[string]any{"workspace": w.Workspace, "signal": shown}})
	return s, nil
}

// output is the end of the prompt of an agent that reworks a failed check.
func (w *Reworker) output(s api.MergeSignal, agent string) string {
	if s.Code != api.CodeCheckFailed || s.Log == "" {
		return ""
	}
	if !w.Agents.ReadsAll(agent) {
		return Withheld(s.Agent)
	}
	text, err := w.Output(s.Log)
	if err != nil {
		w.Log.Warn("output of a check not read", "workspace", w.Workspace, "agent", s.Agent, "op", "rework", "err", err)
		return NoCheckOutput()
	}
	return CheckOutput(s.Agent, text)
}

// gone returns an error if the agent of a request was removed. An agent that was added after the
// request has only its name: it has neither the branch nor the rules.
func (w *Reworker) gone(s api.MergeSignal) error {
	if added, ok := w.Agents.Added(s.Agent); ok && !added.After(s.Ready) {
		return nil
	}
	return api.Errorf(api.CodeAgentNotFound, "agent %s of request %s was removed", s.Agent, s.ID)
}

// reworker names the agent that reworks a request: the agent itself, or a new one whose name is not
// taken.
func (w *Reworker) reworker(s api.MergeSignal, same bool) (string, error) {
	if same {
		return s.Agent, nil
	}
	taken := w.Agents.Statuses("")
	for n := range maxReworkNames {
		name := s.Agent + "-rework"
		if n > 0 {
			name += fmt.Sprint(n + 1)
		}
		if err := api.CheckName(name); err != nil {
			return "", err
		}
		if _, ok := taken[name]; !ok {
			return name, nil
		}
	}
	return "", api.Errorf(api.CodeQuota, "agent %s has %d reworks", s.Agent, maxReworkNames).WithHint("polisctl agents remove removes the agents that are over")
}
