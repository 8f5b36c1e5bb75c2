package tui

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
)

// questions is the screen where a person answers agents' questions.
type questions struct {
	chosen string       // an ID
	since  time.Time    // from when on the chosen one is on the screen, unless a key chose it
	whole  api.Approval // the chosen one with what an edit would change, once it was read
	top    int          // of the details
}

// wholeMsg is one question with all that is shown of it.
type wholeMsg struct {
	v   api.Approval
	err error
}

func (m *Model) openQuestions() tea.Cmd {
	m.questions, m.pane, m.taskScreen = &questions{}, nil, nil
	m.chooseQuestion(0)
	return tea.Batch(m.look(), m.readQuestion())
}

// questionsRead takes a list over. It rings for those that are new.
func (m *Model) questionsRead(all []api.Approval) tea.Cmd {
	known := map[string]bool{}
	for _, v := range m.asked {
		known[v.ID] = true
	}
	var ring tea.Cmd
	for _, v := range all {
		if !known[v.ID] {
			if text := m.bell.Ring(m.now(), "agent "+v.Agent+" asks: "+v.ID); text != "" {
				ring = tea.Raw(text)
			}
			break
		}
	}
	at := m.questionIndex()
	m.asked = all
	if q := m.questions; q != nil && m.questionIndex() < 0 {
		gone := q.chosen
		m.chooseQuestion(at)
		q.since = m.now()
		if gone != "" {
			m.say("question " + gone + " is answered or withdrawn")
		}
	}
	return tea.Batch(ring, m.readQuestion())
}

func (m *Model) questionIndex() int {
	if m.questions == nil {
		return -1
	}
	for i, v := range m.asked {
		if v.ID == m.questions.chosen {
			return i
		}
	}
	return -1
}

// chooseQuestion chooses the one at a place, or the nearest.
func (m *Model) chooseQuestion(at int) {
	q := m.questions
	q.chosen, q.top = "", 0
	if n := len(m.asked); n > 0 {
		q.chosen = m.asked[max(0, min(at, n-1))].ID
	}
}

// readQuestion reads all of the chosen question, once.
func (m *Model) readQuestion() tea.Cmd {
	q := m.questions
	if q == nil || q.chosen == "" || q.whole.ID == q.chosen {
		return nil
	}
	d, id := m.daemon, q.chosen
	return m.tasks.cmd(lookLimit, func(ctx context.Context) tea.Msg {
		v, err := d.Approval(ctx, id)
		return wholeMsg{v, err}
	})
}

func (m *Model) wholeRead(msg wholeMsg) {
	if q := m.questions; q != nil && msg.err == nil && msg.v.ID == q.chosen {
		q.whole = msg.v
	}
}

// questionKey takes a key on the screen of questions.
func (m *Model) questionKey(s string) tea.Cmd {
	q := m.questions
	at := m.questionIndex()
	switch s {
	case "q", "esc", "A":
		m.questions = nil
		return m.outputs()
	case "?":
		m.openHelp()
	case "up", "k", "down", "j":
		by := 1
		if s == "up" || s == "k" {
			by = -1
		}
		m.chooseQuestion(at + by)
		return m.readQuestion()
	case "pgdown", "space":
		q.top += max(1, m.detailRows(len(m.asked))-1)
	case "pgup":
		q.top = max(0, q.top-max(1, m.detailRows(len(m.asked))-1))
	case "a", "t", "g", "r", "d", "x":
		return m.answerKey(s, at)
	}
	return nil
}

func (m *Model) answerKey(s string, at int) tea.Cmd {
	if at < 0 {
		m.fail("no question is selected")
		return nil
	}
	if m.now().Sub(m.questions.since) < settle {
		m.fail("this question took the place of another: read it, and press the key again")
		return nil
	}
	v := m.asked[at]
	switch s {
	case "d", "x":
		verdict := api.VerdictDeny
		if s == "x" {
			verdict = api.VerdictAbort
		}
		m.input = &input{prompt: "reason for " + v.Agent + ": ", empty: true, done: func(text string) tea.Cmd {
			return m.answerQuestion(v, api.AnswerRequest{Verdict: verdict, Scope: api.ScopeOnce, Reason: strings.TrimSpace(text)})
		}}
		return nil
	}
	scope := map[string]api.AnswerScope{"a": api.ScopeOnce, "t": api.ScopeTask, "g": api.ScopeAgent, "r": api.ScopeRole}[s]
	return m.answerQuestion(v, api.AnswerRequest{Verdict: api.VerdictApprove, Scope: scope})
}

func (m *Model) answerQuestion(v api.Approval, req api.AnswerRequest) tea.Cmd {
	d := m.daemon
	return m.begin("question "+v.ID, "answering "+v.ID, lookLimit, func(ctx context.Context) doneMsg {
		_, err := d.Answer(ctx, v.ID, req)
		return doneMsg{err: err, text: fmt.Sprintf("question %s of agent %s: %s, %s", v.ID, v.Agent, req.Verdict, req.Scope)}
	})
}

func (m *Model) questionsView() []string {
	return m.chooserView(listScreen{
		title: "polis  questions", count: api.Count(len(m.asked), "open question"), none: "no agent asks for anything",
		at: m.questionIndex(), n: len(m.asked), top: &m.questions.top,
		line: func(i int) string {
			v := m.asked[i]
			return verbatim(fmt.Sprintf("  %s  %s  %-8s %s", v.ID, v.Since.Local().Format(time.TimeOnly), v.Kind, strings.TrimSpace(v.Tool+" "+v.What)))
		},
		details: func(i int) []string { return m.questionDetails(m.asked[i]) },
		style: func(line string, all []string) string {
			return diffStyle(strings.TrimPrefix(line, "    "), all, 0).Render(line)
		},
	})
}

// questionDetails are the lines about a question. Only those of a diff begin with four spaces, so
// that nothing else has their colours.
func (m *Model) questionDetails(v api.Approval) []string {
	if w := m.questions.whole; w.ID == v.ID {
		v = w
	}
	var out []string
	say := func(label, text string) { out = append(out, labelled(label, text, m.inner())...) }
	more := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprintf(" [%s more are not shown]", api.Count(n, "byte"))
	}
	say("agent", fmt.Sprintf("%s in %s, role %s, task %s", v.Agent, v.Workspace, dash(v.Role), dash(v.Task)))
	if v.Tool != "" {
		say("tool", fmt.Sprintf("%s (class %s)", v.Tool, v.Class))
	}
	say("what", v.What+more(v.WhatHidden))
	if len(v.Diff) > 0 {
		say("change", "as a diff:")
	}
	for _, line := range v.Diff {
		out = append(out, "    "+verbatim(line))
	}
	if v.DiffHidden > 0 {
		say("", fmt.Sprintf("[%s more are not shown]", api.Count(v.DiffHidden, "line")))
	}
	if v.Detail != v.What {
		say("arguments", v.Detail+more(v.DetailHidden))
	}
	say("note", v.Note)
	if v.PID > 0 {
		say("asked by", fmt.Sprintf("%s (pid %d on the host)", cmp.Or(v.Program, "a process"), v.PID))
	}
	say("waiting", fmt.Sprintf("%s since %s; denied by itself at %s", api.Count(v.Callers, "call"), v.Since.Local().Format(time.DateTime), v.Deadline.Local().Format(time.DateTime)))
	if v.Remember == "" {
		say("remember", "not possible (too long, or not UTF-8)")
	} else {
		say("remember", "t, g and r add the rule "+v.Remember)
	}
	return out
}
