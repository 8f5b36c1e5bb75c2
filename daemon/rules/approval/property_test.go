package approval

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

// town is two agents' queues and what is true of them: which calls wait, and what the first
// answer to each question was.
type town struct {
	now    time.Time
	queues map[string]*Queue
	calls  []*call
	// first is the answer that a queue accepted, even if the commander got no confirmation.
	first map[string]api.Answer
	// published counts the events of a question.
	asked, ended map[string]int
	reason       int
}

type call struct {
	agent string
	text  string
	c     *Caller
	got   *api.Answer
}

func newTown() *town {
	w := &town{now: noon, queues: map[string]*Queue{}, first: map[string]api.Answer{}, asked: map[string]int{}, ended: map[string]int{}}
	for _, name := range []string{"claude", "gemini"} {
		n := 0
		w.queues[name] = &Queue{Agent: name, Max: 3, Callers: 5, Now: func() time.Time { return w.now },
			NewID: func() string { n++; return fmt.Sprint(n) },
			Publish: func(c Change) {
				if c.Asked {
					w.asked[c.Approval.ID]++
				} else {
					w.ended[c.Approval.ID]++
				}
			}}
	}
	return w
}

func (w *town) ask(t *rapid.T) {
	agent := rapid.SampledFrom([]string{"claude", "gemini"}).Draw(t, "agent")
	text := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "text")
	q := w.queues[agent]
	waiting := 0
	texts := map[string]bool{}
	for _, c := range w.calls {
		if c.agent == agent && c.got == nil {
			waiting++
			if _, over := w.first[c.c.ID()]; !over {
				texts[c.text] = true
			}
		}
	}
	c, err := q.Ask(shell(text), w.now.Add(time.Minute))
	if waiting >= 5 || !texts[text] && len(texts) >= 3 {
		require.Equal(t, api.CodeQuota, api.CodeOf(err))
		return
	}
	require.NoError(t, err)
	require.NotContains(t, w.first, c.ID(), "a new call never joins an answered question")
	w.calls = append(w.calls, &call{agent: agent, text: text, c: c})
}

// leave is a caller that takes its answer, dies or gives up.
func (w *town) leave(t *rapid.T) {
	c := w.some(t)
	if c == nil {
		return
	}
	a, ok := c.c.Leave()
	first, answered := w.first[c.c.ID()]
	require.Equal(t, answered, ok, "an answer is neither lost nor made up")
	require.Equal(t, first, a)
	if !ok {
		a = api.Answer{Verdict: "left"}
	}
	c.got = &a
}

func (w *town) some(t *rapid.T) *call {
	var open []*call
	for _, c := range w.calls {
		if c.got == nil {
			open = append(open, c)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return rapid.SampledFrom(open).Draw(t, "call")
}

// answer is a commander's. With lost, polisd dies before it can answer the commander, who
// answers again later.
func (w *town) answer(t *rapid.T) {
	var ids []string
	for _, c := range w.calls {
		ids = append(ids, c.c.ID())
	}
	if len(ids) == 0 {
		return
	}
	id := rapid.SampledFrom(ids).Draw(t, "id")
	to := rapid.SampledFrom([]string{"claude", "gemini"}).Draw(t, "to")
	w.reason++
	a := api.Answer{Verdict: rapid.SampledFrom([]api.Verdict{api.VerdictApprove, api.VerdictDeny, api.VerdictAbort}).Draw(t, "verdict"), By: "user:1", Reason: fmt.Sprint(w.reason)}
	before, was := w.first[id]
	open := false
	for _, o := range w.queues[to].Open() {
		open = open || o.ID == id
	}
	change, err := w.queues[to].Answer(id, a)
	v := change.Approval
	switch {
	case open:
		require.NoError(t, err)
		require.False(t, was)
		require.Equal(t, to, v.Agent)
		w.first[id] = *v.Answer
		require.Equal(t, a.Reason, v.Answer.Reason)
	case was && v.Agent == to:
		require.Equal(t, api.CodeAlreadyAnswered, api.CodeOf(err))
		require.Equal(t, before, *v.Answer, "the first answer counts")
	default:
		require.Equal(t, api.CodeNotFound, api.CodeOf(err))
	}
}

// holds are the properties in every state.
func (w *town) holds(t *rapid.T) {
	for name, q := range w.queues {
		open := q.Open()
		require.LessOrEqual(t, len(open), 3)
		callers := map[string]int{}
		for _, c := range w.calls {
			first, answered := w.first[c.c.ID()]
			if c.agent != name || c.got != nil {
				continue
			}
			select {
			case <-c.c.Done():
				require.True(t, answered, "woken without an answer")
			default:
				require.False(t, answered, "answered %v and not woken", first)
				callers[c.c.ID()]++
			}
		}
		require.Len(t, callers, len(open), "a question is open if and only if a call waits for it")
		for _, o := range open {
			require.Equal(t, name, o.Agent)
			require.Equal(t, callers[o.ID], o.Callers)
			require.Equal(t, 0, w.ended[o.ID])
		}
	}
	for id, n := range w.asked {
		require.Equal(t, 1, n, "question %s was published more than once", id)
		require.LessOrEqual(t, w.ended[id], 1, "question %s ended more than once", id)
	}
	for id := range w.first {
		require.Equal(t, 1, w.ended[id])
	}
}

// No question is answered twice, lost, or answered for another agent, over random interleavings of
// calls, answers, crashes of polisd (an answer is repeated) and of askers (a call leaves).
//
// Feature: multi-agent-orchestration, Property 1: Every question has exactly one answer
func TestPropertyEveryQuestionHasOneAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newTown()
		t.Repeat(map[string]func(*rapid.T){
			"ask":    w.ask,
			"leave":  w.leave,
			"answer": w.answer,
			"time":   func(*rapid.T) { w.now = w.now.Add(time.Second) },
			"":       w.holds,
		})
		for _, c := range w.calls {
			if c.got == nil {
				c.c.Leave()
			}
		}
		for _, q := range w.queues {
			require.Empty(t, q.Open(), "agents that die leave nothing")
			require.Zero(t, q.calls)
			require.Empty(t, q.byKey)
		}
	})
}

// Closed questions take bounded memory.
func TestClosedQuestionsAreForgotten(t *testing.T) {
	q, _ := newQueue()
	for i := range 10 * keptAnswers {
		question := shell(fmt.Sprint(i))
		question.Request = fmt.Sprint(i)
		c := ask(t, q, question)
		_, err := q.Answer(c.ID(), approve(""))
		require.NoError(t, err)
		c.Leave()
	}
	require.LessOrEqual(t, len(q.byID), keptAnswers)
	require.Empty(t, q.byKey)
	require.LessOrEqual(t, len(q.used), keptAnswers)
}
