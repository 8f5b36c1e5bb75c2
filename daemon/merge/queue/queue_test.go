package queue

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func names(es []api.QueueEntry) []string {
	var out []string
	for _, e := range es {
		out = append(out, e.Agent)
	}
	return out
}

func add(t require.TestingT, l *Queue, agent string, priority int) api.QueueEntry {
	e, err := l.Add(api.QueueEntry{Agent: agent, Priority: priority})
	require.NoError(t, err)
	return e
}

func TestOrderIsPriorityThenArrival(t *testing.T) {
	var l Queue
	add(t, &l, "a1", 0)
	add(t, &l, "b1", 0)
	add(t, &l, "c1", 5)
	add(t, &l, "d1", -1)
	require.Equal(t, []string{"c1", "a1", "b1", "d1"}, names(l.List()))
	require.NoError(t, l.Prioritize("d1", 6))
	add(t, &l, "b1", 1)
	add(t, &l, "a1", -5) // again, and no worse for it
	require.Equal(t, []string{"d1", "c1", "b1", "a1"}, names(l.List()))
	require.True(t, l.Remove("c1"))
	require.False(t, l.Remove("c1"))
	require.Equal(t, api.CodeNotFound, api.CodeOf(l.Prioritize("c1", 1)))
	require.Equal(t, api.CodeBadRequest, api.CodeOf(l.Prioritize("d1", MaxPriority+1)))
	_, err := l.Add(api.QueueEntry{Agent: "x1", Priority: -MaxPriority - 1})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

func TestAnAgentAddedWhileItIsMergedIsMergedOnceMore(t *testing.T) {
	var l Queue
	first := add(t, &l, "a1", 0)
	require.Equal(t, []string{"a1"}, names(l.Next(3)))
	second := add(t, &l, "a1", 0)
	require.Greater(t, second.Seq, first.Seq)
	l.Done(first.Seq)
	require.Equal(t, []string{"a1"}, names(l.List()))
	require.Equal(t, api.QueueWaiting, l.List()[0].State)
	l.Done(second.Seq)
	require.Empty(t, l.List())
}

func TestABatchIsCheckedOrNot(t *testing.T) {
	var l Queue
	l.Load([]api.QueueEntry{{Agent: "a1", Seq: 1}, {Agent: "b1", Seq: 2, State: api.QueueChecking}, {Agent: "c1", Seq: 3, NoCheck: true}, {Agent: "d1", Seq: 4}})
	require.Equal(t, api.QueueWaiting, l.List()[1].State)
	require.Equal(t, []string{"a1", "b1"}, names(l.Next(8)))
	l.Remove("a1")
	l.Remove("b1")
	require.Equal(t, []string{"c1"}, names(l.Next(8)))
}

func TestAQueueIsBounded(t *testing.T) {
	var l Queue
	for i := range MaxEntries {
		add(t, &l, fmt.Sprint("a", i), 0)
	}
	_, err := l.Add(api.QueueEntry{Agent: "more"})
	require.Equal(t, api.CodeQuota, api.CodeOf(err))
	add(t, &l, "a7", 3)
	l.Load([]api.QueueEntry{{Agent: "x"}})
	require.Len(t, l.List(), MaxEntries)
}

// TestAnyQueue compares a line with a list that is searched for its best.
func TestAnyQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l Queue
		type entry struct {
			agent    string
			priority int
			seq      int
		}
		var model []entry
		seq := 0
		agents := rapid.SampledFrom([]string{"a1", "b1", "c1", "d1", "e1"})
		at := func(a string) int { return slices.IndexFunc(model, func(e entry) bool { return e.agent == a }) }
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				a, p := agents.Draw(t, "agent"), rapid.IntRange(-3, 3).Draw(t, "priority")
				add(t, &l, a, p)
				seq++
				if i := at(a); i >= 0 {
					model[i].priority = max(model[i].priority, p)
				} else {
					model = append(model, entry{a, p, seq})
				}
			},
			"remove": func(t *rapid.T) {
				a := agents.Draw(t, "agent")
				i := at(a)
				require.Equal(t, i >= 0, l.Remove(a))
				if i >= 0 {
					model = slices.Delete(model, i, i+1)
				}
			},
			"prioritize": func(t *rapid.T) {
				a, p := agents.Draw(t, "agent"), rapid.IntRange(-3, 3).Draw(t, "priority")
				i := at(a)
				require.Equal(t, i >= 0, l.Prioritize(a, p) == nil)
				if i >= 0 {
					model[i].priority = p
				}
			},
			"restart": func(*rapid.T) {
				kept := l.List()
				l = Queue{}
				l.Load(kept)
			},
			"": func(t *rapid.T) {
				left, want := slices.Clone(model), []string(nil)
				for len(left) > 0 {
					best := 0
					for i, e := range left {
						if e.priority > left[best].priority || e.priority == left[best].priority && e.seq < left[best].seq {
							best = i
						}
					}
					want = append(want, left[best].agent)
					left = slices.Delete(left, best, best+1)
				}
				require.Equal(t, want, names(l.List()))
			},
		})
	})
}
