package tui

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// question waits for a yes.
type question struct {
	text string
	yes  func() tea.Cmd
}

// doneMsg is how an action ended. ask is what must be asked before the
// action that follows from it.
type doneMsg struct {
	agent string
	text  string
	err   error
	ask   *question
}

// everyone stands for all agents where the name of one is wanted.
const everyone = "*"

// begin does f, unless something is being done to the agent already.
func (m *Model) begin(agent, doing string, limit time.Duration, f func(context.Context) doneMsg) tea.Cmd {
	if now, ok := m.busy[agent]; ok {
		m.fail("wait: " + now)
		return nil
	}
	m.busy[agent] = doing
	m.say("")
	return m.tasks.cmd(limit, func(ctx context.Context) tea.Msg {
		msg := f(ctx)
		msg.agent = agent
		return msg
	})
}

func (m *Model) done(msg doneMsg) tea.Cmd {
	delete(m.busy, msg.agent)
	switch {
	case msg.err != nil:
		m.fail(errText(msg.err))
		if m.free() && api.CodeOf(msg.err) == api.CodeCheckFailed {
			return tea.Batch(m.lookSoon(), m.open(paneCheck, msg.agent))
		}
	case msg.ask == nil:
		m.say(msg.text)
	case m.input != nil || m.ask != nil:
		// What is typed now is meant for something else.
		m.fail("not done, you were typing; try again: " + msg.ask.text)
	default:
		m.ask = msg.ask
	}
	return tea.Batch(m.lookSoon(), m.reload(true), m.readTasks())
}

// free reports whether a person does nothing that a pane would interrupt.
func (m *Model) free() bool {
	return m.pane == nil && m.input == nil && m.ask == nil && m.questions == nil && m.cases == nil && m.taskScreen == nil && !m.help
}

func (m *Model) start(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "starting "+name, actionLimit, func(ctx context.Context) doneMsg {
		g, err := d.BringUp(ctx, name)
		text := fmt.Sprintf("agent %s is %s", name, g.Status)
		if g.Status == api.StatusIdle {
			text += ", ready for a task"
		}
		return doneMsg{text: text, err: err}
	})
}

func (m *Model) stop(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "stopping "+name, actionLimit, func(ctx context.Context) doneMsg {
		g, err := d.Stop(ctx, name)
		text := fmt.Sprintf("agent %s is %s", name, g.Status)
		if t := g.Task; t != nil && t.Queued > 0 {
			text += "; " + api.Count(t.Queued, "queued task") + " left: s begins what waits"
		}
		return doneMsg{text: text, err: err}
	})
}

func (m *Model) commit(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "committing the work of "+name, actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Commit(ctx, name, api.CommitRequest{})
		if err == nil && r.Commit == "" {
			return doneMsg{text: "agent " + name + " has nothing to commit"}
		}
		return doneMsg{err: err, text: fmt.Sprintf("%s of agent %s committed as %s", api.Count(r.Files, "file"), name, short(r.Commit))}
	})
}

func (m *Model) endLeftovers(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "ending what "+name+" left running", actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.EndLeftovers(ctx, name)
		return doneMsg{err: err, text: fmt.Sprintf("%s of agent %s ended", api.Count(r.Ended, "process"), name)}
	})
}

// hand gives the terminal to polisctl until it ends, as for attach and shell.
func (m *Model) hand(words ...string) tea.Cmd {
	if m.polisctl == nil {
		m.fail("polisctl is not beside polis-tui: run polisctl " + strings.Join(words, " ") + " in another terminal")
		return nil
	}
	return tea.ExecProcess(m.polisctl(words...), func(err error) tea.Msg {
		return doneMsg{err: handed(err), text: "back from polisctl " + strings.Join(words, " ")}
	})
}

// handed is nil for a program that ran, however it ended: it has printed why.
func handed(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return nil
	}
	return err
}

func (m *Model) merge(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "merging "+name, mergeLimit, func(ctx context.Context) doneMsg {
		r, err := d.Merge(ctx, name, api.MergeRequest{})
		return doneMsg{err: err, text: sentence(fmt.Sprintf("%s is merged into %s as %s, %s", clean(r.Branch), clean(r.Target),
			short(r.MergeCommitSHA), api.Count(len(r.Paths), "path")), r.Note)}
	})
}

func (m *Model) discard(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "discarding "+name, actionLimit, func(ctx context.Context) doneMsg {
		_, err := d.Discard(ctx, name, false)
		return doneMsg{text: "agent " + name + " is discarded; polisctl restore " + name + " brings it back", err: err}
	})
}

// undo first queries what reverting the merge would mean.
func (m *Model) undo(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "looking at the merge of "+name, actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Revert(ctx, name, api.RevertRequest{DryRun: true})
		switch {
		case err != nil:
			return doneMsg{err: err}
		case r.Already:
			return doneMsg{text: "the merge of agent " + name + " is reverted already"}
		}
		return doneMsg{ask: &question{
			text: sentence(fmt.Sprintf("Revert the merge of %s (%s) in %s?", name, short(r.MergeCommitSHA), clean(r.Target)), r.Warning),
			yes:  func() tea.Cmd { return m.revert(name) },
		}}
	})
}

func (m *Model) revert(name string) tea.Cmd {
	d := m.daemon
	return m.begin(name, "reverting the merge of "+name, actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Revert(ctx, name, api.RevertRequest{})
		return doneMsg{err: err, text: sentence(fmt.Sprintf("%s is reverted in %s by %s", short(r.MergeCommitSHA), clean(r.Target),
			short(r.RevertCommitSHA)), r.Note)}
	})
}

// instruct says a line to a Running agent, and gives another one a task.
func (m *Model) instruct(g api.Agent, text string) tea.Cmd {
	d, name := m.daemon, g.Name
	if g.Status == api.StatusRunning {
		return m.begin(name, "saying it to "+name, actionLimit, func(ctx context.Context) doneMsg {
			r, err := d.Say(ctx, name, api.SayRequest{Text: text})
			return doneMsg{text: clean(r.Message), err: err}
		})
	}
	return m.runTask(g, text)
}

func (m *Model) runTask(g api.Agent, text string) tea.Cmd {
	d, name := m.daemon, g.Name
	return m.begin(name, "giving "+name+" its task", actionLimit, func(ctx context.Context) doneMsg {
		_, err := d.Run(ctx, name, api.RunRequest{Prompt: text})
		return doneMsg{text: "agent " + name + " has its task", err: err}
	})
}

func (m *Model) broadcast(text string) tea.Cmd {
	d, workspace := m.daemon, m.workspace
	return m.begin(everyone, "saying it to all", actionLimit, func(ctx context.Context) doneMsg {
		r, err := d.Broadcast(ctx, api.BroadcastRequest{Workspace: workspace, Text: text, Say: true})
		if err != nil {
			return doneMsg{err: err}
		}
		var failed []string
		for _, one := range r.Results {
			if one.Error != nil {
				failed = append(failed, one.Agent+": "+clean(one.Error.Message))
			}
		}
		sent := "said to " + api.Count(len(r.Results)-len(failed), "running agent")
		if len(failed) > 0 {
			return doneMsg{err: fmt.Errorf("%s, not to %s", sent, strings.Join(failed, "; "))}
		}
		return doneMsg{text: sent}
	})
}

// sentence puts what should also be known behind a text.
func sentence(text, more string) string {
	if more == "" {
		return text
	}
	return text + " (" + clean(more) + ")"
}
