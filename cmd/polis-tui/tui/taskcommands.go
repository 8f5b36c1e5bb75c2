package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"polis/cmd/internal/agenttext"
	"polis/daemon/api"
)

// shownTask is the ID of the task that is selected, or that the open pane is about; "" if there is none.
func (m *Model) shownTask() string {
	switch {
	case m.pane != nil:
		return m.pane.task
	case m.taskScreen != nil:
		return m.taskScreen.chosen
	}
	return ""
}

// namedTask does a command for the task whose ID was typed behind its words.
func (m *Model) namedTask(c command, id string) tea.Cmd {
	if len(fields(id)) > 1 {
		m.fail("nothing was done: " + c.words + " takes the ID of one task, and no text")
		return nil
	}
	return c.task(m, id)
}

// cancelTask asks before it ends, drops or dismisses a task: which of these it does depends on the task.
func (m *Model) cancelTask(id string) tea.Cmd {
	return m.aboutTask(id, "looking at task "+id, func(ctx context.Context) doneMsg {
		t, err := m.daemon.Task(ctx, id, 0)
		if err != nil {
			return doneMsg{err: err}
		}
		return m.mayCancel(t)
	})
}

// cancelWork asks before it cancels what an agent works on, or lost.
func (m *Model) cancelWork(g api.Agent) tea.Cmd {
	d := m.daemon
	return m.begin(g.Name, "looking at the tasks of "+g.Name, lookLimit, func(ctx context.Context) doneMsg {
		all, err := d.Tasks(ctx, g.Name)
		if err != nil {
			return doneMsg{err: err}
		}
		for _, is := range []func(api.Task) bool{func(t api.Task) bool { return t.State == api.TaskRunning }, lost} {
			if i := slices.IndexFunc(all, is); i >= 0 {
				return m.mayCancel(all[i])
			}
		}
		return doneMsg{err: fmt.Errorf("agent %s works on no task: tasks cancel ID drops one that waits, and t lists all", g.Name)}
	})
}

func (m *Model) mayCancel(t api.Task) doneMsg {
	what := t.ID + " (" + clean(agenttext.FirstLine(t.Prompt, 60)) + ")"
	q := &question{yes: func() tea.Cmd { return m.cancel(t) }}
	switch {
	case t.State == api.TaskQueued:
		q.text = "Drop " + what + "? It has not begun."
	case lost(t):
		q.text = "Dismiss " + what + "? It stays lost, and what waits begins."
	case t.State == api.TaskRunning:
		q.text = "Cancel " + what + "? Its program is ended, its work stays and is not merged."
	default:
		return doneMsg{err: fmt.Errorf("task %s has ended: %s", t.ID, clean(taskResult(t)))}
	}
	return doneMsg{ask: q}
}

// cancel cancels a task, or asks again if it has begun or ended since a person was asked.
func (m *Model) cancel(asked api.Task) tea.Cmd {
	return m.aboutTask(asked.ID, "cancelling task "+asked.ID, func(ctx context.Context) doneMsg {
		now, err := m.daemon.Task(ctx, asked.ID, 0)
		if err != nil {
			return doneMsg{err: err}
		}
		if now.State != asked.State || lost(now) != lost(asked) {
			return m.mayCancel(now)
		}
		t, err := m.daemon.CancelTask(ctx, asked.ID)
		return doneMsg{err: err, text: "task " + asked.ID + " is " + clean(taskResult(t))}
	})
}

// retryTask gives a task to its agent again, at once as polisctl does: a person chose it.
func (m *Model) retryTask(id string) tea.Cmd {
	return m.aboutTask(id, "giving task "+id+" again", func(ctx context.Context) doneMsg {
		t, err := m.daemon.RetryTask(ctx, id)
		return doneMsg{err: err, text: fmt.Sprintf("task %s is retried as %s: %s", id, t.ID, clean(taskResult(t)))}
	})
}

// retryLast asks before it retries the task that an agent lost, else its last one that ended.
func (m *Model) retryLast(g api.Agent) tea.Cmd {
	d := m.daemon
	return m.begin(g.Name, "looking at the tasks of "+g.Name, lookLimit, func(ctx context.Context) doneMsg {
		all, err := d.Tasks(ctx, g.Name)
		if err != nil {
			return doneMsg{err: err}
		}
		slices.Reverse(all) // the newest first
		ended := func(t api.Task) bool { return t.ID != "" && t.State == api.TaskEnded }
		for _, is := range []func(api.Task) bool{lost, ended} {
			if i := slices.IndexFunc(all, is); i >= 0 {
				t := all[i]
				return doneMsg{ask: &question{text: fmt.Sprintf("Give %s (%s) to %s again?", t.ID, clean(agenttext.FirstLine(t.Prompt, 60)), g.Name),
					yes: func() tea.Cmd { return m.retryTask(t.ID) }}}
			}
		}
		return doneMsg{err: fmt.Errorf("no task of agent %s has ended", g.Name)}
	})
}

// lost reports whether a task was lost, and is neither retried nor dismissed.
func lost(t api.Task) bool { return t.Interrupted != "" }

// aboutTask does f for the agent of a task.
func (m *Model) aboutTask(id, doing string, f func(context.Context) doneMsg) tea.Cmd {
	agent, _, _ := strings.Cut(id, ".")
	return m.begin(agent, clean(doing), actionLimit, f)
}

func rewindKey(m *Model, g api.Agent) tea.Cmd {
	m.input = &input{prompt: "rewind " + g.Name + " to (empty: the last checkpoint): ", empty: true,
		done: func(text string) tea.Cmd { return m.lookBack(g, strings.TrimSpace(text)) }}
	return nil
}

// lookBack first queries what a rewind would change. What is confirmed is that checkpoint: a time ago would be another
// one by then.
func (m *Model) lookBack(g api.Agent, when string) tea.Cmd {
	d, name := m.daemon, g.Name
	return m.begin(name, "looking at the checkpoints of "+name, actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Rewind(ctx, name, api.RewindRequest{To: when, DryRun: true})
		switch {
		case err != nil:
			return doneMsg{err: err}
		case r.Changed == 0:
			return doneMsg{text: "agent " + name + " has the files of " + r.ID + " already"}
		}
		return doneMsg{ask: &question{
			text: fmt.Sprintf("Rewind %s to %s? %s brought back, which can be undone (polisctl rewind %s --to %s --dry-run lists them).", name, r.ID, are(r.Changed, "path"), name, r.ID),
			yes:  func() tea.Cmd { return m.rewind(name, r.ID) },
		}}
	})
}

// are is a count with its verb.
func are(n int, noun string) string {
	if n == 1 {
		return api.Count(n, noun) + " is"
	}
	return api.Count(n, noun) + " are"
}
