package approval

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

func newQueue() (*Queue, *[]Change) {
	var changes []Change
	n := 0
	q := &Queue{Agent: "claude", Workspace: "w", Now: func() time.Time { return noon },
		NewID:   func() string { n++; return fmt.Sprintf("id%d", n) },
		Publish: func(c Change) { changes = append(changes, c) }}
	return q, &changes
}

func shell(command string) Question {
	return Question{Kind: api.ApprovalTool, Tool: "Bash", Name: "bash", Class: api.ToolShell, Text: command}
}

func ask(t *testing.T, q *Queue, question Question) *Caller {
	t.Helper()
	c, err := q.Ask(question, noon.Add(time.Hour))
	require.NoError(t, err)
	return c
}

func answered(c *Caller) bool {
	select {
	case <-c.Done():
		return true
	default:
		return false
	}
}

func approve(scope api.AnswerScope) api.Answer {
	return api.Answer{Verdict: api.VerdictApprove, Scope: scope, By: "user:1"}
}

func TestAQuestionIsAnsweredForAllItsCallers(t *testing.T) {
	q, changes := newQueue()
	a, b := ask(t, q, shell("make")), ask(t, q, shell("make"))
	other := ask(t, q, shell("make install"))
	require.Equal(t, a.ID(), b.ID())
	require.Len(t, q.Open(), 2)
	require.Equal(t, 2, q.Open()[0].Callers)
	_, err := q.Answer(a.ID(), approve(""))
	require.NoError(t, err)
	require.True(t, answered(a) && answered(b))
	require.False(t, answered(other))
	for _, c := range []*Caller{a, b} {
		got, ok := c.Leave()
		require.True(t, ok)
		require.Equal(t, api.Answer{Verdict: api.VerdictApprove, Scope: api.ScopeOnce, By: "user:1", At: noon}, got)
	}
	require.Len(t, *changes, 3, "asked twice, answered once")
	again := ask(t, q, shell("make"))
	require.NotEqual(t, a.ID(), again.ID(), "an answer for once is for that once")
	require.False(t, answered(again))
}

func TestTheFirstAnswerCounts(t *testing.T) {
	q, _ := newQueue()
	c := ask(t, q, shell("make"))
	_, err := q.Answer(c.ID(), api.Answer{Verdict: api.VerdictDeny, Reason: "no", By: "user:1"})
	require.NoError(t, err)
	_, err = q.Answer(c.ID(), approve(""))
	require.Equal(t, api.CodeAlreadyAnswered, api.CodeOf(err))
	require.Equal(t, "user:1", api.AsError(err).Details["by"])
	got, ok := c.Leave()
	require.True(t, ok)
	require.Equal(t, api.VerdictDeny, got.Verdict)
	require.Equal(t, "no", got.Reason)
}

func TestAnAnswerThatCameBeforeItsCallerLeftIsNotLost(t *testing.T) {
	q, changes := newQueue()
	c := ask(t, q, shell("make"))
	id := c.ID()
	_, ok := c.Leave()
	require.False(t, ok)
	require.Empty(t, q.Open())
	require.Len(t, *changes, 2)
	_, err := q.Answer(id, approve(""))
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	require.ErrorContains(t, err, "withdrawn")
	_, ok = c.Leave()
	require.False(t, ok, "leaving twice is leaving once")
}

func TestAnAnswerOfAnotherAgentsQuestionIsRefused(t *testing.T) {
	q, _ := newQueue()
	ask(t, q, shell("make"))
	_, err := q.Answer("gemini.id1", approve(""))
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	require.Len(t, q.Open(), 1)
}

func TestAnswersThatAreNone(t *testing.T) {
	q, _ := newQueue()
	id := ask(t, q, shell("make")).ID()
	for name, a := range map[string]api.Answer{
		"no verdict":             {},
		"ask is for rules":       {Verdict: api.VerdictAsk},
		"an unknown scope":       {Verdict: api.VerdictDeny, Scope: "world"},
		"an abort is not kept":   {Verdict: api.VerdictAbort, Scope: api.ScopeAgent},
		"a reason that is long":  {Verdict: api.VerdictDeny, Reason: strings.Repeat("x", api.MaxAnswerReason+1)},
		"a task that is not one": {Verdict: api.VerdictApprove, Scope: api.ScopeTask},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := q.Answer(id, a)
			require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
			require.Len(t, q.Open(), 1)
		})
	}
}

func TestQuestionsAndCallersAreBounded(t *testing.T) {
	q, _ := newQueue()
	q.Max, q.Callers = 2, 3
	for _, text := range []string{"a", "b", "b"} {
		ask(t, q, shell(text))
	}
	_, err := q.Ask(shell("b"), noon)
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	q.Callers = 4
	_, err = q.Ask(shell("c"), noon)
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	ask(t, q, shell("b"))
	_, err = q.Ask(Question{Kind: "wish", Text: "x"}, noon)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, err = q.Ask(Question{Kind: api.ApprovalTool, Text: "x"}, noon)
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, err = q.Ask(shell(strings.Repeat("x", MaxText+1)), noon)
	require.Equal(t, api.CodeTooLarge, api.CodeOf(err))
}

func TestARequestIDIsUsedOnce(t *testing.T) {
	q, _ := newQueue()
	first := shell("make")
	first.Request = "r1"
	c := ask(t, q, first)
	repeated := ask(t, q, first)
	require.Equal(t, c.ID(), repeated.ID(), "the same request of a caller that lost its connection")
	forged := shell("rm -rf .")
	forged.Request = "r1"
	_, err := q.Ask(forged, noon)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
	_, err = q.Answer(c.ID(), approve(""))
	require.NoError(t, err)
	_, err = q.Ask(first, noon)
	require.Equal(t, api.CodeBadState, api.CodeOf(err), "a replay")
}

func TestAnAnswerForTheTaskEndsWithIt(t *testing.T) {
	q, changes := newQueue()
	q.Begin("claude.1")
	question := shell("make")
	question.Task = "claude.1"
	_, err := q.Answer(ask(t, q, question).ID(), approve(api.ScopeTask))
	require.NoError(t, err)
	require.Nil(t, (*changes)[1].Rule, "it is not for polisd to keep")
	c := ask(t, q, question)
	require.True(t, answered(c))
	got, ok := c.Leave()
	require.True(t, ok)
	require.Equal(t, "Bash(make)", got.Rule)
	q.Begin("claude.2")
	question.Task = "claude.2"
	require.False(t, answered(ask(t, q, question)))
}

func TestAnAnswerForTheRoleIsARuleToRemember(t *testing.T) {
	q, changes := newQueue()
	c := ask(t, q, shell("make\x1b[2J"))
	require.Equal(t, `Bash(make\x1b[2J)`, q.Open()[0].Remember)
	_, err := q.Answer(c.ID(), approve(api.ScopeRole))
	require.ErrorContains(t, err, "has no role")
	answer := approve(api.ScopeRole)
	answer.Role = "worker"
	_, err = q.Answer(c.ID(), answer)
	require.NoError(t, err)
	rule := (*changes)[1].Rule
	require.Equal(t, api.ApprovalRule{ID: c.ID(), Workspace: "w", Role: "worker", Verdict: api.VerdictApprove, Kind: api.ApprovalTool, Tool: "Bash", What: "make\x1b[2J", By: "user:1", At: noon, Text: `Bash(make\x1b[2J)`}, *rule)
	q.Rules = func() Rules { return Rules{Remembered: []api.ApprovalRule{*rule}} }
	require.True(t, answered(ask(t, q, shell("make\x1b[2J"))))
	require.False(t, answered(ask(t, q, shell("make"))))
	long := ask(t, q, shell(strings.Repeat("x", MaxRemembered+1)))
	_, err = q.Answer(long.ID(), approve(api.ScopeRole))
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	_, err = q.Answer(long.ID(), approve(api.ScopeOnce))
	require.NoError(t, err)
}

func TestWhatPeopleAreShownIsEscapedAndReportsWhatIsHidden(t *testing.T) {
	q, _ := newQueue()
	question := shell("true\r\n\x1b]0;x\x07 \u202e#\u3164\ufe0f" + strings.Repeat(" ", 3) + strings.Repeat("x", MaxShown))
	question.Program = "sh\x1b[1m"
	question.Detail = strings.Repeat("é", MaxShown)
	v := func() api.Approval { ask(t, q, question); return q.Open()[0] }()
	require.True(t, strings.HasPrefix(v.What, `true\x0d\n\x1b]0;x\x07 \u202e#\u3164\ufe0f   xx`), v.What)
	require.Equal(t, len(question.Text)-MaxShown, v.WhatHidden)
	require.Equal(t, `sh\x1b[1m`, v.Program)
	require.Equal(t, MaxShown, v.DetailHidden)
	require.Equal(t, strings.Repeat("é", MaxShown/2), v.Detail)
	require.Equal(t, &api.Waiting{For: api.WaitingApproval, Since: noon, ID: v.ID, Open: 1, What: q.Waiting().What}, q.Waiting())
	require.Less(t, len(q.Waiting().What), 400)
}
