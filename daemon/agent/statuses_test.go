package agent

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestStatesAreKnownWithoutTheShims: the manager has none that could be asked.
func TestStatesAreKnownWithoutTheShims(t *testing.T) {
	w, other := &Workspace{Name: "w"}, &Workspace{Name: "other"}
	m := &Manager{agents: map[string]*Agent{}}
	for name, a := range map[string]*Agent{"a": {WS: w, up: true}, "b": {WS: w}, "c": {WS: other}} {
		a.Kept.Name, a.Kept.Status = name, api.StatusStopped
		m.agents[name] = a
	}
	m.agents["a"].Kept.Status = api.StatusIdle
	require.Equal(t, map[string]api.Status{"a": api.StatusIdle, "b": api.StatusStopped}, m.Statuses("w"))
	require.Len(t, m.Statuses(""), 3)
	require.Empty(t, m.Statuses("none"))
}
