package daemon

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/mergeflow"
)

// reworkTime bounds starting one rework: adding an agent, and its task.
const reworkTime = 2 * time.Minute

// Rework starts the rework of an agent's last failed merge, for a person.
func (b *backend) Rework(ctx context.Context, name string, req api.ReworkRequest) (api.MergeSignal, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return api.MergeSignal{}, err
	}
	ws := b.sorted(a.Workspace)
	if len(ws) == 0 {
		return api.MergeSignal{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", a.Workspace)
	}
	w := ws[0] // names of workspaces are unique
	s, ok := w.flow.Last(name)
	if !ok {
		return s, api.Errorf(api.CodeBadState, "agent %s has no failed merge that a task could resolve", name).WithHint("polisctl queue shows the last results")
	}
	if s.Rework.State == api.ReworkStarted {
		return s, api.Errorf(api.CodeBadState, "the rework of %s has started: task %s", s.ID, s.Rework.Task).WithHint("polisctl tasks show %s", s.Rework.Task)
	}
	r := *s.Rework
	r.State, r.Same, r.Error = api.ReworkWanted, req.Same, ""
	w.flow.SetRework(s.ID, r)
	s.Rework = &r
	return b.startRework(ctx, w, s)
}

// reworkDue starts the reworks that the configuration wants, and those that an earlier polisd began.
func (d *Daemon) reworkDue(ctx context.Context) {
	for _, w := range d.sorted("") {
		for _, s := range w.flow.Reworks() {
			if ctx.Err() != nil || d.halted.Load() {
				return
			}
			if _, err := d.startRework(ctx, w, s); err != nil {
				d.Log.Warn("rework of a merge not started", "workspace", w.agents.Name, "agent", s.Agent, "op", "rework", "err", err)
			}
		}
	}
}

// startRework gives a task to an agent, once: the agent is recorded before it is added, and its task
// is recognised by the prompt. One that cannot be started is offered again.
func (d *Daemon) startRework(ctx context.Context, w *workspace, s api.MergeSignal) (api.MergeSignal, error) {
	w.reworking.Lock()
	defer w.reworking.Unlock()
	ctx, cancel := context.WithTimeout(ctx, reworkTime)
	defer cancel()
	if now, ok := w.flow.Last(s.Agent); !ok || now.ID != s.ID || now.Rework.State == api.ReworkStarted {
		return now, nil // another call did it meanwhile
	}
	r := *s.Rework
	note := func(state api.ReworkState, why string) error {
		r.State, r.Error = state, why
		w.flow.SetRework(s.ID, r)
		s.Rework = &r
		return d.agents.SaveWorkspace(w.agents.Name)
	}
	fail := func(err error) (api.MergeSignal, error) {
		if ctx.Err() == nil {
			r.Agent = ""
			_ = note(api.ReworkOffered, api.AsError(err).Message) //nolint:errcheck // the save is tried again
		}
		return s, err
	}
	if r.Agent == "" {
		name, err := d.reworker(s, r.Same)
		if err != nil {
			return fail(err)
		}
		r.Agent = name
	}
	if err := note(api.ReworkStarting, ""); err != nil {
		return s, err
	}
	if !r.Same {
		if _, err := d.agents.AddLike(ctx, s.Agent, r.Agent); err != nil && api.CodeOf(err) != api.CodeAgentExists {
			return fail(err)
		}
	}
	given, err := d.agents.GivenTask(r.Agent, r.Prompt)
	if err == nil && given == "" {
		var t api.Task
		t, err = d.agents.Run(ctx, r.Agent, api.RunRequest{Prompt: r.Prompt, Queue: true})
		given = t.ID
	}
	if err != nil {
		return fail(err)
	}
	r.Task = given
	if err := note(api.ReworkStarted, ""); err != nil {
		return s, err
	}
	d.hub.Publish(api.Event{Type: api.EventMergeRework, Agent: s.Agent, Message: fmt.Sprintf("request %s: task %s of agent %s resolves what kept it from being merged", s.ID, r.Task, r.Agent), Data: map[string]any{"workspace": w.agents.Name, "signal": s}})
	return s, nil
}

// reworker names the agent that reworks a request.
func (d *Daemon) reworker(s api.MergeSignal, same bool) (string, error) {
	if same {
		return s.Agent, nil
	}
	taken := d.agents.Statuses("")
	return mergeflow.ReworkName(s.Agent, func(name string) bool { _, ok := taken[name]; return ok })
}
