package agent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/store"
)

// TestWhatEndsBadlyAtStartHasItsCode: each fault that a start can find in an agent is reported
// with the code of the table, and does not affect other agents.
func TestWhatEndsBadlyAtStartHasItsCode(t *testing.T) {
	w := newWorld(t.TempDir())
	t.Cleanup(w.Close)
	agents := []store.Agent{
		{Name: "good", BaseType: "custom", Status: api.StatusIdle, Branch: "agent/good"},
		{Name: "good", BaseType: "custom", Status: api.StatusIdle, Branch: "agent/good"},
		{Name: "bad", BaseType: "custom", Status: api.StatusStopped, Branch: "agent/bad"},
	}
	for _, n := range []string{"good", "bad", "found"} {
		w.k.set("worktree")[n] = true
	}
	w.k.set("shim")["stray"] = true
	w.k.set("network")["idle"] = true
	rep := &Report{}
	w.Restore(t.Context(), w.workspaces["w"], agents, []Tree{{Name: "good"}, {Name: "bad", Broken: errInjected}, {Name: "found"}}, rep)
	w.Sweep(t.Context(), rep)
	errs, healed := strings.Join(rep.Errors, "\n"), strings.Join(rep.Healed, "\n")
	require.Contains(t, errs, string(api.CodeReconcileConflict))
	require.Contains(t, strings.Join(rep.Found, "\n"), "found: "+string(api.CodeReconcileConflict))
	require.Contains(t, strings.Join(rep.Skipped, "\n")+errs, string(api.CodeWorktreeCorrupt))
	require.Contains(t, healed, "stray: "+string(api.CodeOrphanProcs))
	require.Contains(t, healed, "idle: left-over network removed")
	require.NotContains(t, healed, "idle: "+string(api.CodeOrphanProcs))
	require.False(t, w.k.set("shim")["stray"])
	a, err := w.Get(t.Context(), "good")
	require.NoError(t, err)
	require.Equal(t, api.StatusIdle, a.Status)
}

func TestASandboxThatCannotBeMadeAgainIsReported(t *testing.T) {
	w := newWorld(t.TempDir())
	t.Cleanup(w.Close)
	w.k.set("worktree")["claude"] = true
	w.k.fail = "ensure shim"
	rep := &Report{}
	w.Restore(t.Context(), w.workspaces["w"], []store.Agent{{Name: "claude", BaseType: "custom", Status: api.StatusIdle, Branch: "b"}}, []Tree{{Name: "claude"}}, rep)
	require.Contains(t, strings.Join(rep.Errors, "\n"), string(api.CodeNSRestoreFailed))
	a, err := w.Get(t.Context(), "claude")
	require.NoError(t, err)
	require.Equal(t, api.StatusError, a.Status)
	require.Contains(t, a.StatusReason, string(api.CodeNSRestoreFailed))
}

func TestProcessesThatCannotBeKilledAreReported(t *testing.T) {
	w := newWorld(t.TempDir())
	t.Cleanup(w.Close)
	_, err := w.Add(t.Context(), api.AddRequest{Name: "claude", BaseType: "custom"})
	require.NoError(t, err)
	w.k.fail = "remove shim"
	_, err = w.Stop(t.Context(), "claude")
	require.Equal(t, api.CodeReapFailed, api.CodeOf(err))
	a, err := w.Get(t.Context(), "claude")
	require.NoError(t, err)
	require.Equal(t, api.StatusError, a.Status)
}
