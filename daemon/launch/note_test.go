package launch

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent"
	"polis/daemon/api/wire"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/internal/nonzero"
)

// TestWhatChangedInALivingAgentIsInItsSpec: a polisd that lost its state reads it there. A variable of the agent's own is
// a key, mostly: one that was replaced or removed must not come back.
func TestWhatChangedInALivingAgentIsInItsSpec(t *testing.T) {
	s := &Shims{Deps: Deps{Run: layout.Run(t.TempDir())}}
	file := s.Run.AgentSpec("ann")
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
	a := &agent.Agent{WS: &agent.Workspace{}, Kept: store.Agent{Name: "ann", Env: map[string]string{"TOKEN": "new"}}}
	require.NoError(t, s.Note(a, nonzero.Of[wire.Settings]()), "without a spec nothing is out of date")
	require.NoFileExists(t, file)

	before := wire.Spec{Version: wire.Version, Agent: "ann", Session: "s", OwnEnv: map[string]string{"TOKEN": "old", "OTHER": "x"}}
	require.NoError(t, store.WriteSummed(file, before))
	require.NoError(t, s.Note(a, nonzero.Of[wire.Settings]()))
	want := before
	want.Settings, want.OwnEnv = nonzero.Of[wire.Settings](), map[string]string{"TOKEN": "new"}
	got, ok := s.Spec("ann")
	require.True(t, ok)
	require.Equal(t, want, got)
}
