package agent

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/store"
)

// TestHintsOfRareStates has states that no command brings about, and does what the hints say.
func TestHintsOfRareStates(t *testing.T) {
	ctx := t.Context()
	w := newWorld(t.TempDir())
	defer w.Close()
	w.Answers = &keptAnswers{}
	refused := func(err error, hint string) {
		t.Helper()
		require.Error(t, err)
		require.Equal(t, hint, api.AsError(err).Hint)
	}
	_, err := w.Add(ctx, api.AddRequest{Name: "a1"})
	refused(err, "--base custom runs any program; polisctl agents types lists the others")
	_, err = w.Add(ctx, api.AddRequest{Name: "a1", BaseType: "custom"})
	require.NoError(t, err)
	a := w.agent(t)

	// A shim of an older polis, which a stop and a start replace.
	old := func(version int) {
		w.k.mu.Lock()
		w.k.version = version
		w.k.mu.Unlock()
	}
	again := func(between func()) {
		t.Helper()
		_, err := w.Stop(ctx, "a1")
		require.NoError(t, err)
		between()
		old(0)
		_, err = w.Start(ctx, "a1", false)
		require.NoError(t, err)
	}
	memory := 300
	old(wire.SettingsVersion - 1)
	_, err = w.Set(ctx, "a1", api.SetRequest{MemoryMB: memory})
	refused(err, "polisctl agents stop a1, then set, then polisctl agents start a1")
	again(func() {
		_, err := w.Set(ctx, "a1", api.SetRequest{MemoryMB: memory})
		require.NoError(t, err)
	})
	require.Equal(t, memory, a.Copy().MemoryLimitMB)
	old(wire.LeftoversVersion - 1)
	_, err = w.Leftovers(ctx, "a1", false)
	refused(err, "polisctl agents stop a1 ends it all, polisctl agents start a1 starts it again")
	again(func() {})
	_, err = w.Leftovers(ctx, "a1", false)
	require.NoError(t, err)
	old(wire.UDPVersion - 1)
	_, err = w.MapPort(ctx, api.PortRequest{Agent: "a1", Internal: 5000, Protocol: api.ProtoUDP})
	refused(err, "polisctl agents stop a1 && polisctl agents start a1")
	again(func() {})
	_, err = w.MapPort(ctx, api.PortRequest{Agent: "a1", Internal: 5000, Protocol: api.ProtoUDP})
	require.NoError(t, err)

	// It changed while the patrol decided.
	refused(w.StopSame(ctx, "a1", func(Living) bool { return false }), "polisctl patrol shows what it is now")
	// It is being made: the command that the hint names shows the state.
	refused(permit("a1", api.StatusCreating, verbRun), "it is still being made: wait until polisctl agents list shows it Idle")
	require.NoError(t, permit("a1", api.StatusIdle, verbRun))

	// Its rules are lost: a role gives it others.
	w.mu.Lock()
	a.Kept.RulesLost = true
	w.mu.Unlock()
	_, err = w.AddLike(ctx, "a1", "a2")
	refused(err, "polisctl agents set a1 --role ROLE gives it rules")
	_, err = w.Set(ctx, "a1", api.SetRequest{Reset: []string{"deny"}})
	refused(err, "polisctl agents set a1 --role ROLE gives it rules")
	w.mu.Lock()
	w.cfgLive.Roles = map[string]config.Role{"reader": {}}
	w.mu.Unlock()
	role := "reader"
	_, err = w.Set(ctx, "a1", api.SetRequest{Role: &role})
	require.NoError(t, err)
	_, err = w.AddLike(ctx, "a1", "a2")
	require.NoError(t, err)

	// As many answers as there may be: one is revoked.
	rules := make([]api.ApprovalRule, maxAnswers)
	for i := range rules {
		rules[i] = api.ApprovalRule{ID: "a1." + strconv.Itoa(i), Agent: "a1"}
	}
	a.WS.Answers = store.Answers{Rules: rules}
	refused(w.roomForAnswer(a.WS), "polisctl approvals revoke ID revokes one, or answer once")
	_, err = w.RevokeApproval("a1.7")
	require.NoError(t, err)
	require.NoError(t, w.roomForAnswer(a.WS))

	// The workspace is being removed.
	w.mu.Lock()
	a.WS.leaving = true
	w.mu.Unlock()
	_, err = w.Add(ctx, api.AddRequest{Name: "a3", BaseType: "custom"})
	refused(err, "polisctl up adds it again")
}
