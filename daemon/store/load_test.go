package store

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func loadState(t *testing.T, path string) (State, string, error) {
	t.Helper()
	return LoadState("w", path, time.Now(), slog.New(slog.DiscardHandler))
}

func TestACorruptStateIsReplacedByTheBackup(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	st, lost, err := loadState(t, path)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, State{}, st, "there is none yet")

	f := StateFile{}
	agents := []Agent{{Name: "a", Status: api.StatusRunning, StatusReason: "x"}, {Name: "b", Status: api.StatusError, StatusReason: "y"}}
	require.NoError(t, f.Save(path, State{Agents: agents}, time.Now()))
	st, lost, err = loadState(t, path)
	require.NoError(t, err)
	require.Empty(t, lost)
	require.Equal(t, StateVersion, st.Version)
	require.Equal(t, api.StatusRunning, st.Agents[0].Status)

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	st, lost, err = loadState(t, path)
	require.NoError(t, err)
	require.Contains(t, lost, string(api.CodeStateCorrupt)+": workspace w: ")
	require.Contains(t, lost, " and the state before")
	require.Equal(t, []api.Status{api.StatusStopped, api.StatusError}, []api.Status{st.Agents[0].Status, st.Agents[1].Status},
		"an agent is neither started nor removed as incomplete because of an older state")
	require.Empty(t, st.Agents[0].StatusReason)
	require.Equal(t, "y", st.Agents[1].StatusReason)

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	require.NoError(t, os.Remove(Backup(path)))
	st, lost, err = loadState(t, path)
	require.NoError(t, err)
	require.NotEmpty(t, lost)
	require.NotContains(t, lost, "the state before")
	require.Empty(t, st.Agents)
}

func TestAStateThatIsNotUnderstoodIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	require.NoError(t, WriteKept(path, State{Version: StateVersion + 1}))
	_, lost, err := loadState(t, path)
	require.Equal(t, api.CodeStateCorrupt, api.CodeOf(err))
	require.Empty(t, lost)
	require.FileExists(t, path, "it is a newer polisd's")

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700))
	_, lost, err = loadState(t, path)
	require.Error(t, err, "it is not known to be corrupt")
	require.Empty(t, lost)
	require.DirExists(t, path)
}

// A backup never grants more than the state that it replaces.
func TestTheBackupGrantsTheSameRights(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	f := StateFile{}
	rights := func() string {
		var st State
		b, err := os.ReadFile(Backup(path))
		require.NoError(t, err)
		require.NoError(t, Decode(b, &st))
		sum, err := Rights(st.Agents)
		require.NoError(t, err)
		return string(sum[:])
	}
	for _, role := range []string{"developer", "reviewer", "reviewer", "developer"} {
		agents := []Agent{{Name: "a", Role: role}}
		require.NoError(t, f.Save(path, State{Agents: agents}, time.Now()))
		want, err := Rights(agents)
		require.NoError(t, err)
		require.Equal(t, string(want[:]), rights(), role)
	}
	require.Error(t, f.Save(filepath.Join(path, "none"), State{}, time.Now()))
}

func TestAllocationsAreThePortMapsOfAllAgents(t *testing.T) {
	require.Equal(t, PortAllocations{NextPort: 20000, Mappings: []api.PortMapping{}}, Allocations(nil, 20000, "127.0.0.1"))
	got := Allocations([]Agent{{Name: "a", PortMappings: []PortMap{{Internal: 80, External: 20004, Protocol: "tcp", Bind: "::1"}, {Internal: 81, External: 20002, Protocol: "udp", Auto: true}}}}, 20000, "127.0.0.1")
	require.Equal(t, PortAllocations{NextPort: 20005, Mappings: []api.PortMapping{
		{Agent: "a", Internal: 80, External: 20004, Protocol: "tcp", Bind: "::1"}, {Agent: "a", Internal: 81, External: 20002, Protocol: "udp", Bind: "127.0.0.1", Auto: true}}}, got)
}

func TestACorruptRegistryIsRebuilt(t *testing.T) {
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	reg, err := LoadRegistry(dir, time.Now(), log)
	require.NoError(t, err)
	require.Equal(t, Registry{Version: 1, Workspaces: map[string]string{}}, reg)

	reg.Workspaces["far"] = "/srv/far"
	require.NoError(t, SaveRegistry(dir, reg))
	require.NoError(t, SaveRegistry(dir, reg)) // the backup has it, too
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "near", ".polis"), 0o755))
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "other"), 0o755))
	for _, text := range []string{"{", `{"version":1}`} {
		require.NoError(t, os.WriteFile(registryFile(dir), []byte(text), 0o600))
		reg, err = LoadRegistry(dir, time.Now(), log)
		require.ErrorIs(t, err, ErrCorrupt)
		require.Equal(t, api.CodeStateCorrupt, api.CodeOf(err))
		require.Equal(t, map[string]string{"far": "/srv/far", "near": filepath.Join(dir, "near")}, reg.Workspaces)
		require.Contains(t, api.AsError(err).Hint, "2 workspaces")
		again, err := LoadRegistry(dir, time.Now(), log)
		require.NoError(t, err, "it was saved")
		require.Equal(t, reg, again)
	}
	require.NoError(t, os.Remove(registryFile(dir)))
	require.NoError(t, os.Mkdir(registryFile(dir), 0o700))
	_, err = LoadRegistry(dir, time.Now(), log)
	require.Error(t, err)
	require.False(t, errors.Is(err, ErrCorrupt))
	require.Equal(t, api.CodeStateNotSaved, api.CodeOf(SaveRegistry(filepath.Join(dir, "none"), reg)))
}
