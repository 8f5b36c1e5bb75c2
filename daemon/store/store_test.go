package store

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestWriteReplacesAndLeavesNoTemporary(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "state.json")
	for i := range 3 {
		require.NoError(t, WriteJSON(p, State{Version: i}))
	}
	var s State
	require.NoError(t, ReadJSON(p, &s, time.Now()))
	require.Equal(t, 2, s.Version)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 1)
	require.Error(t, WriteJSON(filepath.Join(dir, "no", "dir"), s))
}

func TestCorruptFileIsKeptAside(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "state.json")
	require.NoError(t, os.WriteFile(p, []byte(`{"version": 2, "agents": [`), 0o600))
	var s State
	require.ErrorIs(t, ReadJSON(p, &s, time.Now()), ErrCorrupt)
	require.ErrorIs(t, ReadJSON(p, &s, time.Now()), fs.ErrNotExist)
	kept, err := filepath.Glob(p + ".corrupt-*")
	require.NoError(t, err)
	require.Len(t, kept, 1)
}

// Feature: multi-agent-workspaces, Property 21: Persistence Round-Trip
func TestStateRoundTrip(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		in := State{Version: StateVersion}
		for range rapid.IntRange(0, 6).Draw(t, "agents") {
			in.Agents = append(in.Agents, Agent{
				Name: rapid.StringMatching(`[a-z][a-z0-9-]{1,30}`).Draw(t, "name"), BaseType: rapid.String().Draw(t, "type"),
				Branch: rapid.String().Draw(t, "branch"), MemoryLimitMB: rapid.Int().Draw(t, "memory"),
				PortMappings: [][2]int{{rapid.IntRange(1, 65535).Draw(t, "in"), rapid.IntRange(1, 65535).Draw(t, "ex")}},
				CreatedAt:    time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "time"), 0).UTC(),
			})
		}
		p := filepath.Join(dir, "s.json")
		require.NoError(t, WriteJSON(p, in))
		var out State
		require.NoError(t, ReadJSON(p, &out, time.Now()))
		require.Equal(t, in, out)
	})
}
