package store

import (
	"errors"
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

func TestACorruptFileIsRenamed(t *testing.T) {
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
				PortMappings: []PortMap{drawPortMap(t)},
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

// TestTheStateBeforeIsKept: a corrupt file is renamed and the one before is
// read; what is corrupt too, or was never there, is not.
func TestTheStateBeforeIsKept(t *testing.T) {
	good := func(s State) error {
		if s.Version < 1 {
			return errors.New("no version")
		}
		return nil
	}
	for name, c := range map[string]struct {
		state, old string
		want       int
		restored   bool
		corrupt    bool
	}{
		"nothing wrong":            {state: `{"version": 2}`, old: `{"version": 1}`, want: 2},
		"cut short":                {state: `{"version": 2`, old: `{"version": 1}`, want: 1, restored: true, corrupt: true},
		"empty":                    {state: ``, old: `{"version": 1}`, want: 1, restored: true, corrupt: true},
		"json, but not a state":    {state: `{}`, old: `{"version": 1}`, want: 1, restored: true, corrupt: true},
		"another shape":            {state: `[1]`, old: `{"version": 1}`, want: 1, restored: true, corrupt: true},
		"both corrupt":             {state: `x`, old: `y`, corrupt: true},
		"the one before is no use": {state: `x`, old: `{}`, corrupt: true},
		"none before":              {state: `x`, corrupt: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := filepath.Join(t.TempDir(), "state.json")
			require.NoError(t, os.WriteFile(p, []byte(c.state), 0o600))
			if c.old != "" {
				require.NoError(t, os.WriteFile(Backup(p), []byte(c.old), 0o600))
			}
			var s State
			restored, err := ReadKept(p, &s, time.Now(), good)
			require.Equal(t, c.restored, restored)
			require.Equal(t, c.want, s.Version)
			if !c.corrupt {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, ErrCorrupt)
			kept, err := filepath.Glob(p + ".corrupt-*")
			require.NoError(t, err)
			require.Len(t, kept, 1)
			require.Equal(t, c.state, string(read(t, kept[0])))
		})
	}
	_, err := ReadKept(filepath.Join(t.TempDir(), "none"), &State{}, time.Now(), good)
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func read(t *testing.T, path string) []byte {
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return b
}

// TestSweepRemovesWhatACrashLeft, and nothing else.
func TestSweepRemovesWhatACrashLeft(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "state.json")
	keep := []string{"state.json", "state.json.old", "state.json.corrupt-20260101T000000.000000000Z", ".other.json.1", "state.jsonx"}
	for _, n := range append(keep, ".state.json.123", ".state.json.zz", "state.json.old.new") {
		require.NoError(t, os.WriteFile(filepath.Join(dir, n), []byte("x"), 0o600))
	}
	require.NoError(t, Sweep(p))
	require.NoError(t, Sweep(p))
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
	}
	require.ElementsMatch(t, keep, names)
	require.NoError(t, Sweep(filepath.Join(dir, "none", "state.json")))
}

// TestWriteKept: the file and the one before, through any number of writes and
// a leftover of a crash.
func TestWriteKept(t *testing.T) {
	dir := t.TempDir()
	p := filepath.Join(dir, "state.json")
	for i := 1; i <= 4; i++ {
		require.NoError(t, WriteKept(p, State{Version: i}))
		var s State
		require.NoError(t, ReadJSON(p, &s, time.Now()))
		require.Equal(t, i, s.Version)
		if i > 1 {
			require.NoError(t, ReadJSON(Backup(p), &s, time.Now()))
			require.Equal(t, i-1, s.Version)
			require.NoError(t, os.WriteFile(Backup(p)+".new", []byte("left by a crash"), 0o600))
		}
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, left, 3)
}
