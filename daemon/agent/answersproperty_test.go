package agent

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/daemon/store"
)

// askers are an agent's shim, whose questions survive polisd, and a polisd that crashes at any step
// of an answer.
type askers struct {
	w     *world
	a     *Agent
	disk  *keptAnswers
	queue *approval.Queue
	calls []*approval.Caller
	// events are what the shim reports; polisd has acted on those before cursor, as far as it noted.
	events []api.ApprovalRule
	cursor int
	// given are the answers to remember that the shim took, confirmed those of which a person knows.
	given, confirmed, revoked map[string]bool
	texts                     map[string]string // of a given answer
}

// crash is a polisd that dies and is started again: it knows what is on the disk.
func (k *askers) crash() {
	k.w.mu.Lock()
	defer k.w.mu.Unlock()
	k.a.WS.Answers = k.disk.last
}

func (k *askers) ask(t *rapid.T) {
	text := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "text")
	c, err := k.queue.Ask(approval.Question{Kind: api.ApprovalWrite, Text: text}, time.Now().Add(time.Hour))
	if err != nil {
		require.Equal(t, api.CodeQuota, api.CodeOf(err))
		return
	}
	if c.ID() == "" { // a rule decided: one that was given, and that no person revoked
		require.True(t, slices.ContainsFunc(k.a.Remembered(), func(r api.ApprovalRule) bool { return r.What == text && k.given[r.ID] && !k.revoked[r.ID] }))
		return
	}
	k.calls = append(k.calls, c)
}

// die is the end of an asker.
func (k *askers) die(t *rapid.T) {
	if len(k.calls) > 0 {
		i := rapid.IntRange(0, len(k.calls)-1).Draw(t, "caller")
		k.calls[i].Leave()
		k.calls = slices.Delete(k.calls, i, i+1)
	}
}

// answer is a person's, for the agent. polisd may die before the shim has it, before it is kept, or
// before the person knows.
func (k *askers) answer(t *rapid.T) {
	open := k.queue.Open()
	if len(open) == 0 {
		return
	}
	v := rapid.SampledFrom(open).Draw(t, "question")
	died := rapid.SampledFrom([]string{"", "", "before", "taken", "kept"}).Draw(t, "polisd dies")
	if died == "before" {
		k.crash()
		return
	}
	change, err := k.queue.Answer(v.ID, api.Answer{Verdict: api.VerdictApprove, Scope: api.ScopeAgent, By: "user:1"})
	require.NoError(t, err)
	k.given[v.ID], k.texts[v.ID] = true, v.What
	if died == "taken" {
		k.crash()
		return
	}
	require.NoError(t, k.w.keepAnswer(k.a, *change.Rule))
	if died == "kept" {
		k.crash()
		return
	}
	k.confirmed[v.ID] = true
}

// report has polisd act on the next event of the shim. It may die before it notes that it did.
func (k *askers) report(t *rapid.T) {
	if k.cursor == len(k.events) {
		return
	}
	require.NoError(t, k.w.keepAnswer(k.a, k.events[k.cursor]))
	if rapid.Bool().Draw(t, "polisd dies") {
		k.crash()
		return
	}
	k.cursor++
}

func (k *askers) revoke(t *rapid.T) {
	rules := k.a.Remembered()
	if len(rules) == 0 {
		return
	}
	r := rapid.SampledFrom(rules).Draw(t, "rule")
	_, err := k.w.RevokeApproval(r.ID)
	require.NoError(t, err)
	k.revoked[r.ID] = true
}

// holds are the properties in every state.
func (k *askers) holds(t *rapid.T) {
	seen := map[string]bool{}
	for _, r := range k.a.Remembered() {
		require.False(t, seen[r.ID], "%s is remembered twice", r.ID)
		require.True(t, k.given[r.ID] && !k.revoked[r.ID], "%s was not given, or is revoked", r.ID)
		require.Equal(t, k.texts[r.ID], r.What)
		require.Equal(t, "a1", r.Agent)
		seen[r.ID] = true
	}
	for id := range k.confirmed {
		require.True(t, seen[id] || k.revoked[id], "%s was confirmed and is lost", id)
	}
}

// No answer that is to be remembered is lost, doubled or brought back, over random interleavings of
// questions, answers, crashes of polisd at every step, and ends of askers.
//
// Feature: multi-agent-orchestration, Property 3: What was answered is remembered exactly once
func TestPropertyAnswersAreRememberedExactlyOnce(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	disk := &keptAnswers{}
	w.Answers = disk
	_, err := w.Add(context.Background(), api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	a, err := w.lookup("a1")
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		n := 0
		k := &askers{w: w, a: a, disk: disk, given: map[string]bool{}, confirmed: map[string]bool{}, revoked: map[string]bool{}, texts: map[string]string{}}
		disk.last = store.Answers{}
		k.crash()
		k.queue = &approval.Queue{Agent: "a1", Max: 3, NewID: func() string { n++; return fmt.Sprint(n) },
			Rules: func() approval.Rules { return approval.Rules{Remembered: a.Remembered()} },
			Publish: func(c approval.Change) {
				if c.Rule != nil {
					k.events = append(k.events, *c.Rule)
				}
			}}
		t.Repeat(map[string]func(*rapid.T){"ask": k.ask, "die": k.die, "answer": k.answer, "report": k.report, "revoke": k.revoke,
			"crash": func(*rapid.T) { k.crash() }, "": k.holds})
		for _, e := range k.events[k.cursor:] {
			require.NoError(t, w.keepAnswer(a, e))
		}
		k.holds(t)
		require.Len(t, a.Remembered(), len(k.given)-len(k.revoked), "every answer that was given is remembered in the end")
		for _, c := range k.calls {
			c.Leave()
		}
		require.Empty(t, k.queue.Open())
	})
}
