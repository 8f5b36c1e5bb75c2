package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func asking() *fakeDaemon {
	f := twoAgents()
	since := time.Now()
	f.agents[1].Waiting = &api.Waiting{For: api.WaitingApproval, Since: since, ID: "one.aaaa", What: "tool Bash make", Open: 2}
	f.asked = []api.Approval{
		{ID: "one.aaaa", Agent: "one", Workspace: "demo", Kind: api.ApprovalTool, Tool: "Bash", Class: api.ToolShell, What: "make\x1b[2J", WhatHidden: 7, Since: since, Callers: 1, Remember: "Bash(make)"},
		{ID: "one.bbbb", Agent: "one", Workspace: "demo", Kind: api.ApprovalTool, Tool: "Edit", Class: api.ToolEdit, What: "a.txt", Since: since, Callers: 1},
		{ID: "one.cccc", Agent: "one", Workspace: "demo", Kind: api.ApprovalWrite, What: "b.txt", Since: since, Callers: 1},
	}
	return f
}

func TestQuestionsAreListedAndAnsweredByKey(t *testing.T) {
	f := asking()
	inBubble(t, f, func(t *testing.T, s *screen) {
		require.Contains(t, s.text(), "3 questions (A)")
		require.Contains(t, s.text(), "one: has waited 0s for your answer to one.aaaa: tool Bash make (and 1 more: A)")
		s.keys("A")
		text := s.text()
		for _, want := range []string{"3 open questions", "> one.aaaa", "  one.bbbb", "Bash (class shell)", "[7 bytes more are not shown]", "t, g and r add the rule Bash(make)", "    +new", `    -old\x1b[2J`} {
			require.Contains(t, text, want)
		}
		require.NotContains(t, strings.Join(s.m.lines(), "\n"), "\x1b[2J")
		require.Len(t, s.m.lines(), 24)
		s.keys("j")
		require.Contains(t, s.text(), "> one.bbbb")
		f.changes()
		s.keys("g")
		require.Contains(t, f.changes(), "answer one.bbbb: approve agent ")
		time.Sleep(time.Second)
		require.Contains(t, s.text(), "> one.cccc", "the next takes its place")
		s.keys("d")
		require.Contains(t, s.text(), "reason for one: _")
		s.keys("not today<enter>")
		require.Contains(t, f.changes(), "answer one.cccc: deny once not today")
		time.Sleep(time.Second)
		s.keys("x<enter>")
		require.Contains(t, f.changes(), "answer one.aaaa: abort once ")
		time.Sleep(time.Second)
		require.Contains(t, s.text(), "no agent asks for anything")
		s.keys("a")
		require.Empty(t, f.changes())
		s.keys("<esc>")
		require.Contains(t, s.text(), "> one ")
	})
}

// What was typed for a question does not answer the one that took its place.
func TestAKeyAnswersTheQuestionThatItWasPressedFor(t *testing.T) {
	f := asking()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("A")
		f.asked = f.asked[1:] // another person answered the first
		s.run(s.m.look())
		require.Contains(t, s.text(), "question one.aaaa is answered or withdrawn")
		f.changes()
		s.keys("a")
		require.Empty(t, f.changes())
		require.Contains(t, s.text(), "press the key again")
		time.Sleep(settle)
		s.keys("a")
		require.Equal(t, []string{"answer one.bbbb: approve once "}, f.changes())
	})
}

func TestANewQuestionRingsOnce(t *testing.T) {
	f := asking()
	first, later := f.asked[:1], f.asked
	f.asked = first
	inBubble(t, f, func(t *testing.T, s *screen) {
		rings := func() int {
			n := 0
			var count func(cmd tea.Cmd)
			count = func(cmd tea.Cmd) {
				if cmd == nil {
					return
				}
				switch msg := cmd().(type) {
				case tea.BatchMsg:
					for _, c := range msg {
						count(c)
					}
				case tea.RawMsg:
					n++
				}
			}
			count(s.m.looked(lookMsg{agents: f.agents, asked: f.asked, at: time.Now()}))
			return n
		}
		require.Zero(t, rings(), "it rang at the first look")
		time.Sleep(time.Minute)
		require.Zero(t, rings())
		f.asked = later
		require.Equal(t, 1, rings(), "once for two")
		require.Zero(t, rings())
	})
}
