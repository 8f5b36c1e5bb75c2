package tui

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// crowd is four agents of which two wait for a person, and one for a lease.
func crowd() *fakeDaemon {
	f := twoAgents()
	since := time.Now().Add(-3 * time.Minute)
	wait := func(name, what string) api.Agent {
		return api.Agent{Name: name, BaseType: "custom", Workspace: "demo", Status: api.StatusRunning, Branch: "agent/" + name,
			Waiting: &api.Waiting{For: what, Since: since, ID: name + ".q1", What: "main.go, which one holds", Open: 1}}
	}
	f.agents = append(f.agents, wait("cold", api.WaitingThaw), wait("lock", api.WaitingLease), wait("zoe", api.WaitingApproval))
	return f
}

func names(agents []api.Agent) (out []string) {
	for _, g := range agents {
		out = append(out, g.Name)
	}
	return out
}

func TestAgentsThatWaitForAPersonAreFirst(t *testing.T) {
	f := crowd()
	inBubble(t, f, func(t *testing.T, s *screen) {
		require.Equal(t, []string{"cold", "zoe", "lock", "one", "two"}, names(s.m.shown()))
		require.Equal(t, "cold", s.m.chosen)
		s.keys("jj")
		require.Equal(t, "lock", s.m.chosen)
		f.agents[2].Waiting = nil // cold continues
		s.run(s.m.look())
		require.Equal(t, []string{"zoe", "cold", "lock", "one", "two"}, names(s.m.shown()))
		require.Equal(t, "lock", s.m.chosen, "the selection follows the agent, not the row")
		f.agents = append(f.agents[:3], f.agents[4:]...) // lock is removed
		s.run(s.m.look())
		require.Equal(t, "one", s.m.chosen, "the one that took its place")
	})
}

func TestTheFilterWaitingShowsThoseThatWaitForAPerson(t *testing.T) {
	f := crowd()
	inBubble(t, f, func(t *testing.T, s *screen) {
		s.keys("/Waiting<enter>")
		require.Equal(t, []string{"cold", "zoe"}, names(s.m.shown()), "not the one that waits for a lease")
		require.Contains(t, s.text(), `filter "Waiting": 2 of 5`)
		f.agents[2].Waiting, f.agents[4].Waiting = nil, nil
		s.run(s.m.look())
		require.Contains(t, s.text(), "no agent waits for you; esc drops the filter")
		s.keys("<esc>/waiting for<enter>")
		require.Equal(t, []string{"lock"}, names(s.m.shown()), "other texts select by what is shown")
		s.keys("<esc>/frozen<enter>")
		require.Empty(t, s.m.shown())
	})
}
