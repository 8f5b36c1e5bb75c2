package task

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store"
)

func TestTheEndThatAnAgentReportedIsKept(t *testing.T) {
	dir := t.TempDir()
	s := &Store{Dir: dir, Agent: "a", Now: time.Now}
	_, ok, err := s.Done("a.1")
	require.NoError(t, err)
	require.False(t, ok, "nothing was reported")

	done := wire.TaskDone{At: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), By: api.EndComplete, Failed: true, Message: "why", CleanupStatus: api.CleanupStash}
	left := filepath.Join(dir, ".done.json.123")
	require.NoError(t, os.WriteFile(left, []byte("{"), 0o600))
	require.NoError(t, KeepDone(dir, "a.1", done))
	require.NoFileExists(t, left, "a write that was cut short leaves nothing")
	got, ok, err := s.Done("a.1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, done, got)
	_, ok, err = s.Done("a.2")
	require.NoError(t, err)
	require.False(t, ok, "it is of another task")

	require.NoError(t, KeepDone(dir, "a.2", wire.TaskDone{By: api.EndDone}))
	_, ok, err = s.Done("a.1")
	require.NoError(t, err)
	require.False(t, ok, "only the last one is kept")

	require.NoError(t, os.WriteFile(filepath.Join(dir, doneFile), []byte(`{"task": "a.2", "done": {}}`+"\nsum"), 0o600))
	_, ok, err = s.Done("a.2")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.False(t, ok)
	require.Error(t, KeepDone(filepath.Join(dir, "gone"), "a.3", done), "what is not on disk is not kept")
}

func TestTheExitOfAProgramIsKept(t *testing.T) {
	dir := t.TempDir()
	s := &Store{Dir: dir, Agent: "a", Now: time.Now}
	_, ok, err := s.Exit("a.1")
	require.NoError(t, err)
	require.False(t, ok, "no program has exited")

	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	exit := wire.TaskExit{At: at, Code: 7, OOM: "killed", Output: api.OutputRange{From: 3, To: 9}, Use: &api.TaskUse{WritesDenied: 2},
		Steps:   wire.Steps{Task: "a.1", Steps: []api.Step{{Kind: api.StepCommand, Text: "make"}}, Total: 70, Report: &api.TaskReport{}, Raw: &api.OutputRange{To: 5}},
		Refused: []api.WhyEntry{{Op: "write", Path: "x"}}}
	require.NoError(t, KeepExit(dir, "a.1", exit))
	require.NoError(t, KeepDone(dir, "a.1", wire.TaskDone{At: at, By: api.EndDone}))
	got, ok, err := s.Exit("a.1")
	require.NoError(t, err)
	require.True(t, ok)
	require.Equal(t, exit, got)
	_, ok, err = s.Exit("a.2")
	require.NoError(t, err)
	require.False(t, ok, "it is of another task")

	require.NoError(t, os.WriteFile(filepath.Join(dir, exitFile), []byte(`{"task": "a.1", "exit": {"code": 0}`), 0o600))
	_, ok, err = s.Exit("a.1")
	require.ErrorIs(t, err, store.ErrCorrupt)
	require.False(t, ok, "half a record is none")
}
