package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/history/cas"
)

func contentsOf(sizes map[string]int64) *contents {
	l := &contents{}
	for name, n := range sizes {
		l.all = append(l.all, content{cas.Sum([]byte(name)), n})
	}
	return l
}

// shelf makes holdings: each record needs what is named, "name:size".
type shelf struct {
	all []holding
}

func (s *shelf) put(agent string, kind int, size int64, lists ...*contents) string {
	id := fmt.Sprintf("%s%d", agent, len(s.all))
	lists = append(lists, contentsOf(map[string]int64{id: size}))
	s.all = append(s.all, holding{id: id, agent: agent, at: time.Unix(int64(len(s.all)), 0), kind: kind, lists: lists})
	return id
}

func TestTheAgentWithTheMostMakesRoom(t *testing.T) {
	for name, c := range map[string]struct {
		fill  func(s *shelf)
		limit int64
		wish  wish
		want  []string
	}{
		"its oldest frequent ones, and then those before tasks": {func(s *shelf) {
			s.put("a", marked, 10)
			s.put("a", often, 30)
			s.put("a", rewound, 10)
			s.put("a", often, 40)
			s.put("b", marked, 2)
		}, 98, wish{"b", false, 45}, []string{"a1", "a2", "a0"}},
		"its last one goes last": {func(s *shelf) {
			s.put("a", often, 90)
		}, 100, wish{"b", false, 10}, []string{"a0"}},
		"what an agent makes itself displaces no checkpoint before a task of another": {func(s *shelf) {
			s.put("a", marked, 50)
			s.put("a", marked, 30)
			s.put("b", often, 5)
			s.put("b", often, 5)
			s.put("b", often, 5)
		}, 100, wish{"b", true, 10}, []string{"b2", "b3"}},
		"what an agent makes often displaces what another makes often beyond its share": {func(s *shelf) {
			s.put("a", often, 50)
			s.put("a", often, 30)
			s.put("b", often, 10)
		}, 100, wish{"b", true, 10}, []string{"a0"}},
		"an agent beyond its share displaces only its own": {func(s *shelf) {
			s.put("a", often, 30)
			s.put("a", often, 20)
			s.put("b", often, 5)
			s.put("b", often, 55)
		}, 100, wish{"b", false, 5}, []string{"b2"}},
		"not beyond its share, and nothing that is not enough": {func(s *shelf) {
			for range 9 {
				s.put("a", often, 10)
			}
		}, 100, wish{"b", false, 60}, nil},
		"until it has its share": {func(s *shelf) {
			for range 9 {
				s.put("a", often, 10)
			}
		}, 100, wish{"b", false, 40}, []string{"a0", "a1", "a2", "a3"}},
		"a person's snapshots stay": {func(s *shelf) {
			s.put("a", fixed, 90)
		}, 100, wish{"b", false, 10}, nil},
		"what all need counts for nobody": {func(s *shelf) {
			base := contentsOf(map[string]int64{"base": 60})
			s.put("a", often, 10, base)
			s.put("a", often, 10, base)
			s.put("a", often, 10, base)
			s.put("b", often, 10, base)
		}, 100, wish{"b", false, 5}, []string{"a0"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &shelf{}
			c.fill(s)
			got, _ := victims(s.all, c.limit, c.wish)
			require.Equal(t, c.want, got)
		})
	}
}

// naive computes by the definition what victims keeps up to date.
type naive struct {
	all    []holding
	common map[cas.Hash]bool
	agents map[string]bool
}

func newNaive(all []holding, agent string) *naive {
	n := &naive{all: slices.Clone(all), common: map[cas.Hash]bool{}, agents: map[string]bool{agent: true}}
	by := map[cas.Hash]string{}
	for _, h := range all {
		n.agents[h.agent] = true
		for _, l := range h.lists {
			for _, c := range l.all {
				if was, ok := by[c.hash]; ok && was != h.agent {
					n.common[c.hash] = true
				}
				by[c.hash] = h.agent
			}
		}
	}
	return n
}

// sizes returns what an agent alone needs, and with "" what all need.
func (n *naive) size(agent string) (sum int64) {
	seen := map[cas.Hash]bool{}
	for _, h := range n.all {
		for _, l := range h.lists {
			for _, c := range l.all {
				if !seen[c.hash] && (agent == "" || agent == h.agent && !n.common[c.hash]) {
					seen[c.hash] = true
					sum += c.size
				}
			}
		}
	}
	return sum
}

// newest returns the newest checkpoint of an agent that there was at first.
func newest(all []holding, agent string) string {
	id, at := "", time.Time{}
	for _, h := range all {
		if h.agent == agent && (h.kind == often || h.kind == marked) && !h.at.Before(at) {
			id, at = h.id, h.at
		}
	}
	return id
}

// Feature: multi-agent-workspaces, Property: for any wish for room, what is removed is what the rule allows, in its order, and
// no more than is wanted; and if that would be too little, nothing is removed
func TestRoomIsMadeByTheRule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lists []*contents
		for i := range rapid.IntRange(1, 12).Draw(t, "lists") {
			l := &contents{}
			for range rapid.IntRange(0, 4).Draw(t, "contents") {
				k := rapid.IntRange(0, 20).Draw(t, "content")
				l.all = append(l.all, content{cas.Sum([]byte{byte(k)}), int64(1 + 7*k%13)})
			}
			_ = i
			lists = append(lists, l)
		}
		var all []holding
		for i := range rapid.IntRange(0, 25).Draw(t, "records") {
			h := holding{id: fmt.Sprintf("r%02d", i), agent: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "agent"), at: time.Unix(int64(i), 0),
				kind: rapid.SampledFrom([]int{often, often, rewound, marked, fixed}).Draw(t, "kind")}
			for range rapid.IntRange(0, 3).Draw(t, "of lists") {
				if l := rapid.SampledFrom(lists).Draw(t, "list"); !slices.Contains(h.lists, l) {
					h.lists = append(h.lists, l)
				}
			}
			h.lists = append(h.lists, contentsOf(map[string]int64{h.id: int64(rapid.IntRange(0, 30).Draw(t, "own"))}))
			all = append(all, h)
		}
		limit := int64(rapid.IntRange(1, 400).Draw(t, "limit"))
		w := wish{rapid.SampledFrom([]string{"a", "b", "e"}).Draw(t, "who"), rapid.Bool().Draw(t, "its own"), int64(rapid.IntRange(1, 120).Draw(t, "bytes"))}
		ids, freed := victims(slices.Clone(all), limit, w)

		n := newNaive(all, w.agent)
		before := n.size("")
		share := int64(0)
		{
			common := int64(0)
			seen := map[cas.Hash]bool{}
			for _, h := range all {
				for _, l := range h.lists {
					for _, c := range l.all {
						if n.common[c.hash] && !seen[c.hash] {
							seen[c.hash] = true
							common += c.size
						}
					}
				}
			}
			share = max(limit-common, 0) / int64(len(n.agents))
		}
		fromOthers := int64(0)
		allowed := func(h holding) bool {
			own := n.size(w.agent)
			switch last := newest(all, h.agent) == h.id; {
			case h.kind == fixed:
				return false
			case h.agent == w.agent:
				return !last
			case own+fromOthers >= share || n.size(h.agent) <= share || n.size(h.agent) <= own+fromOthers:
				return false
			case w.own:
				return h.kind != marked && !last
			default:
				return true
			}
		}
		order := func(a, b holding) int {
			last := func(h holding) int {
				if newest(all, h.agent) == h.id {
					return 1
				}
				return 0
			}
			return cmp.Or(cmp.Compare(n.size(b.agent), n.size(a.agent)), cmp.Compare(a.agent, b.agent), cmp.Compare(last(a), last(b)), cmp.Compare(a.kind, b.kind), cmp.Compare(a.id, b.id))
		}
		best := func() (holding, bool) {
			var may []holding
			for _, h := range n.all {
				if allowed(h) {
					may = append(may, h)
				}
			}
			if len(may) == 0 {
				return holding{}, false
			}
			return slices.MinFunc(may, order), true
		}
		sum := int64(0)
		for _, id := range ids {
			require.Less(t, sum, w.bytes, "no more than is wanted")
			h, ok := best()
			require.True(t, ok, "%s may not go", id)
			require.Equal(t, h.id, id)
			was := n.size("")
			n.all = slices.DeleteFunc(n.all, func(x holding) bool { return x.id == id })
			sum += was - n.size("")
			if h.agent != w.agent {
				fromOthers += was - n.size("")
			}
		}
		require.Equal(t, freed, sum)
		require.Equal(t, freed, before-n.size(""))
		if len(ids) > 0 {
			require.GreaterOrEqual(t, freed, w.bytes)
			return
		}
		for sum < w.bytes { // what the rule allows is too little
			h, ok := best()
			if !ok {
				return
			}
			was := n.size("")
			n.all = slices.DeleteFunc(n.all, func(x holding) bool { return x.id == h.id })
			sum += was - n.size("")
			if h.agent != w.agent {
				fromOthers += was - n.size("")
			}
		}
		require.Fail(t, "there was room")
	})
}

// Feature: multi-agent-workspaces, Property: an agent within its share gets room before a task, whatever the others made: all
// that is not a person's, and that they have beyond their shares
func TestAnAgentWithinItsShareGetsRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &shelf{}
		others := rapid.IntRange(1, 5).Draw(t, "others")
		used := int64(0)
		for range rapid.IntRange(others, 40).Draw(t, "records") {
			size := int64(rapid.IntRange(1, 100).Draw(t, "size"))
			used += size
			s.put(fmt.Sprint("x", rapid.IntRange(1, others).Draw(t, "agent")), rapid.SampledFrom([]int{often, rewound, marked}).Draw(t, "kind"), size)
		}
		want := int64(rapid.IntRange(1, int(used)/(others+1)+1).Draw(t, "bytes"))
		if want > used/int64(len(newFairRoom(s.all, used, wish{agent: "w"}).users)) {
			return
		}
		_, freed := victims(s.all, used, wish{"w", false, want})
		require.GreaterOrEqual(t, freed, want)
	})
}
