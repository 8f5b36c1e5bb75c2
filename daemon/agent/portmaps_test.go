package agent

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/store"
)

// consistent wants the maps of all agents to be what the allocator has given
// out, each external port one port's, in the range, and the state to agree.
func consistent(t *rapid.T, w *world, lo, hi int) {
	t.Helper()
	owner := map[int]string{}
	held := w.mem.pool.Held()
	n := 0
	for _, p := range w.PortMappings() {
		require.True(t, lo <= p.External && p.External <= hi, "%d is not in the range", p.External)
		who := fmt.Sprintf("%s %d", p.Agent, p.Internal)
		if other, taken := owner[p.External]; taken {
			require.Equal(t, other, who, "only the protocols of one port share %d", p.External)
		}
		owner[p.External] = who
		require.EqualValues(t, p.External, held[netKey(PortKey{p.Agent, p.Protocol, p.Internal})])
		n++
	}
	require.Len(t, held, n, "what is not mapped is given back")
	w.mem.mu.Lock()
	defer w.mem.mu.Unlock()
	saved := 0
	for _, a := range w.mem.kept {
		saved += len(a.PortMappings)
		require.LessOrEqual(t, len(a.KnownPorts), maxKnown)
	}
	require.Equal(t, n, saved, "the state says the same")
}

// Feature: multi-agent-workspaces, Property 9: Port Mapping Uniqueness
// Feature: multi-agent-workspaces, Property 10: Port Range Validity
func TestPortMapsHoldWhateverIsDone(t *testing.T) {
	const lo, hi = 3001, 3012
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(dir)
		defer w.Close()
		w.mem.fakePorts = newFakePorts(lo, hi)
		w.Manager.Ports = w.mem
		w.Manager.Config.Network.Ports = fmt.Sprintf("%d-%d", lo, hi)
		w.SetConfig(w.Manager.Config)
		ctx := context.Background()
		key := func(t *rapid.T) PortKey {
			return PortKey{rapid.SampledFrom([]string{"alice", "bob"}).Draw(t, "agent"),
				rapid.SampledFrom([]string{"tcp", "udp"}).Draw(t, "protocol"), rapid.IntRange(1, 6).Draw(t, "port")}
		}
		agentOf := func(k PortKey) *Agent { w.mu.Lock(); defer w.mu.Unlock(); return w.agents[k.Agent] }
		for _, name := range []string{"alice", "bob"} {
			_, err := w.Add(ctx, api.AddRequest{Name: name, BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}, Ports: []int{1}, UDPPorts: []int{1}})
			require.NoError(t, err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"map": func(t *rapid.T) {
				k := key(t)
				req := api.PortRequest{Agent: k.Agent, Protocol: k.Protocol, Internal: k.Internal, Last: k.Internal + rapid.IntRange(0, 3).Draw(t, "more"),
					External: rapid.SampledFrom([]int{0, 0, lo, lo + 3}).Draw(t, "external")}
				before := w.PortMappings()
				blocked := false // what another program has taken cannot come back
				for _, p := range before {
					blocked = blocked || w.mem.taken[p.External]
				}
				added, err := w.MapPort(ctx, req)
				if err != nil {
					require.Contains(t, []api.Code{api.CodeNoPorts, api.CodePortInUse, api.CodeAgentNotFound}, api.CodeOf(err), err.Error())
					if !blocked {
						require.Equal(t, before, w.PortMappings(), "a refusal changes nothing")
					}
					return
				}
				require.Len(t, added.Ports, req.Last-req.Internal+1)
				for i, p := range added.Ports {
					require.Equal(t, added.External+i, p.External, "in a row")
					require.False(t, w.mem.taken[p.External] && req.Last > req.Internal)
				}
			},
			"unmap": func(t *rapid.T) {
				k := key(t)
				if err := w.UnmapPort(ctx, k.Agent, k.Protocol, k.Internal, 0); err != nil {
					require.Contains(t, []api.Code{api.CodePortNotFound, api.CodeAgentNotFound}, api.CodeOf(err), err.Error())
				}
			},
			"a listener comes": func(t *rapid.T) {
				k := key(t)
				if a := agentOf(k); a != nil && a.up {
					w.autoMap(ctx, w.Shims.Dial(k.Agent), a, k.Protocol, k.Internal)
				}
			},
			"a listener goes": func(t *rapid.T) {
				k := key(t)
				if a := agentOf(k); a != nil && a.up {
					w.unmap(ctx, w.Shims.Dial(k.Agent), a, k.Protocol, k.Internal)
				}
			},
			"stop":   func(t *rapid.T) { _, _ = w.Stop(ctx, key(t).Agent) },
			"start":  func(t *rapid.T) { _, _ = w.Start(ctx, key(t).Agent, false) },
			"remove": func(t *rapid.T) { _, _ = w.Remove(ctx, key(t).Agent, true, false) },
			"another program": func(t *rapid.T) {
				p := rapid.IntRange(lo, hi).Draw(t, "port")
				w.mem.taken[p] = !w.mem.taken[p]
			},
			"": func(t *rapid.T) { consistent(t, w, lo, hi) },
		})
	})
}

func TestWhatAnAgentIsRememberedByIsBounded(t *testing.T) {
	a := &Agent{Kept: store.Agent{Name: "alice"}}
	for i := range maxKnown + 10 {
		dropped := a.remember(store.PortMap{Internal: 1 + i, External: 3001 + i, Protocol: "tcp", Auto: true})
		require.Equal(t, i >= maxKnown, len(dropped) == 1)
	}
	require.Len(t, a.Kept.KnownPorts, maxKnown)
	require.Equal(t, 11, a.Kept.KnownPorts[0].Internal, "the oldest goes first")
	require.False(t, a.Kept.KnownPorts[0].Auto)
	require.Empty(t, a.remember(store.PortMap{Internal: 11, External: 4000, Protocol: "tcp"}))
	require.Equal(t, 4000, a.Kept.KnownPorts[maxKnown-1].External)
}
