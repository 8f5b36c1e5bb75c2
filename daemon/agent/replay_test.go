package agent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestOnlyTasksThatBeginAgainAsTheyDidAreReplayed(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	c := w.config()
	c.Models = map[string]config.Model{"m": {Kind: "anthropic"}}
	c.Roles = map[string]config.Role{"with": {Gateway: config.Gateway{Models: []string{"m"}}}}
	w.SetConfig(c)
	for _, name := range []string{"with", "without"} {
		role := map[string]string{"with": "with"}[name]
		_, err := w.Add(t.Context(), api.AddRequest{Name: name, BaseType: "custom", AgentSpec: api.AgentSpec{Role: role, Command: []string{"sh"}}})
		require.NoError(t, err)
	}
	good := api.Task{State: api.TaskEnded, Prompt: "do it", Base: "b", Time: time.Now()}
	for name, x := range map[string]struct {
		agent  string
		change func(*api.Task)
		why    string
	}{
		"a task":              {"with", func(*api.Task) {}, ""},
		"one that runs":       {"with", func(t *api.Task) { t.State = api.TaskRunning }, "has not ended"},
		"typed text":          {"with", func(t *api.Task) { t.Via = "send" }, "typed"},
		"one that continued":  {"with", func(t *api.Task) { t.Continue = true }, "continued"},
		"without a beginning": {"with", func(t *api.Task) { t.Base = "" }, "where it began"},
		"no model any more":   {"without", func(*api.Task) {}, "no model service"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := w.lookup(x.agent)
			require.NoError(t, err)
			task := good
			x.change(&task)
			err = w.replayable(a, task)
			if x.why == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, x.why)
			require.Equal(t, api.CodeBadState, api.CodeOf(err))
		})
	}
	require.Equal(t, "with-replay1", w.freeName("with"))
	long := "a123456789012345678901234567-90"
	require.NoError(t, api.CheckName(w.freeName(long)))
	_, err := w.Replayed(t.Context(), "with", false)
	require.Equal(t, api.CodeBadState, api.CodeOf(err))
}

// TestAnAgentThatReplaysReachesNothing, whatever its role and the other agent reach.
func TestAnAgentThatReplaysReachesNothing(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	c := w.config()
	c.Models = map[string]config.Model{"m": {Kind: "anthropic"}}
	c.Roles = map[string]config.Role{"with": {Gateway: config.Gateway{Models: []string{"m"}}, Network: config.NetworkRules{Egress: config.Egress{"open"}, HostPorts: []uint16{80}}}}
	w.SetConfig(c)
	_, err := w.Add(t.Context(), api.AddRequest{Name: "ann", BaseType: "custom", AgentSpec: api.AgentSpec{Role: "with", Command: []string{"sh"}, Egress: []string{"open"}, HostPorts: []uint16{81}}})
	require.NoError(t, err)
	a, err := w.lookup("ann")
	require.NoError(t, err)
	was, err := w.records(a).Create(api.Task{State: api.TaskEnded, Prompt: "do it", Base: "b", Time: time.Now()})
	require.NoError(t, err)
	r, err := w.Replay(t.Context(), was.ID, api.ReplayRequest{ByOrder: true})
	require.NoError(t, err)
	got, err := w.lookup(r.Agent)
	require.NoError(t, err)
	k := got.Copy()
	require.Equal(t, was.ID, k.Replay.Task)
	require.True(t, k.Replay.ByOrder)
	require.Equal(t, "b", k.Base)
	require.False(t, *k.AutoMerge)
	c = w.config()
	reach, err := c.Reach(k.Role, got.Type, ownReach(k))
	require.NoError(t, err)
	require.Equal(t, []string{"none"}, reach.Policy.Entries())
	require.Empty(t, reach.HostPorts)
	now, err := w.Replayed(t.Context(), r.Agent, false)
	require.NoError(t, err)
	require.Equal(t, []string{was.ID, r.Agent, r.Task}, []string{now.Of, now.Agent, now.Task})
}
