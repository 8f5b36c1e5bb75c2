package task

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func newStore(dir string) *Store {
	return &Store{Dir: dir, Agent: "a1", Now: time.Now}
}

func TestRecordsOutliveTheirStore(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	one, err := s.Create(api.Task{Prompt: "one", State: api.TaskRunning})
	require.NoError(t, err)
	require.Equal(t, "a1.1", one.ID)
	code := 1
	_, err = s.Update(one.ID, func(t *api.Task) { Finish(t, End{At: began, By: api.EndExit, Exit: &code}) })
	require.NoError(t, err)

	s = newStore(dir)
	got, err := s.Get("a1.1")
	require.NoError(t, err)
	require.Equal(t, "failed (exit 1)", got.Result)
	two, err := s.Create(api.Task{Prompt: "two"})
	require.NoError(t, err)
	require.Equal(t, "a1.2", two.ID)
	_, err = s.Get("a1.3")
	require.Equal(t, api.CodeNotFound, api.CodeOf(err))
}

// A crash leaves a temporary file, and damage a file that is none: neither keeps
// the others from being read, nor its number from being used once.
func TestDamageCostsOneRecord(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	for range 3 {
		_, err := s.Create(api.Task{Prompt: "p"})
		require.NoError(t, err)
	}
	require.NoError(t, os.WriteFile(s.file(2), []byte("{"), 0o640))
	cut := filepath.Join(dir, "tasks", ".00000003.json.123")
	require.NoError(t, os.WriteFile(cut, nil, 0o640))
	s = newStore(dir)
	all, err := s.List(10, nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.NoFileExists(t, cut)
	next, err := s.Create(api.Task{})
	require.NoError(t, err)
	require.Equal(t, "a1.4", next.ID)
}

func TestTheOldestEndedTasksGoFirst(t *testing.T) {
	s := newStore(t.TempDir())
	waits, err := s.Create(api.Task{Prompt: "waits", State: api.TaskQueued})
	require.NoError(t, err)
	big := strings.Repeat("x", 1<<20)
	for range 20 {
		_, err := s.Create(api.Task{Prompt: big, State: api.TaskEnded})
		require.NoError(t, err)
	}
	all, err := s.List(MaxTasks, nil)
	require.NoError(t, err)
	require.Equal(t, waits.ID, all[0].ID, "what waits is never forgotten")
	require.Less(t, len(all), 17)
	require.Equal(t, "a1.21", all[len(all)-1].ID)
}

func TestAnOlderPolisdsLogIsRead(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, oldLog), []byte(`{"agent":"a1","prompt":"old","command":["x"],"time":"2029-01-01T00:00:00Z"}`+"\n{cut"), 0o640))
	s := newStore(dir)
	_, err := s.Create(api.Task{Prompt: "new"})
	require.NoError(t, err)
	all, err := s.List(10, nil)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "old", all[0].Prompt)
	require.Equal(t, "new", all[1].Prompt)
	all, err = s.List(1, nil)
	require.NoError(t, err)
	require.Equal(t, "new", all[0].Prompt)
}

// A full disk (here: a directory where the file should be) must not lose an end.
func TestWhatCannotBeWrittenCountsAndIsWrittenLater(t *testing.T) {
	dir := t.TempDir()
	s := newStore(dir)
	one, err := s.Create(api.Task{State: api.TaskRunning})
	require.NoError(t, err)
	away := filepath.Join(dir, "away")
	require.NoError(t, os.Rename(s.records(), away))
	changed := s.Changed()
	s.unsaved[1] = one
	_, err = s.Update(one.ID, func(t *api.Task) { Finish(t, End{At: began, By: api.EndStop}) })
	require.Equal(t, api.CodeStateNotSaved, api.CodeOf(err))
	<-changed
	got, err := s.Get(one.ID)
	require.NoError(t, err)
	require.Equal(t, "stopped", got.Result)
	require.Error(t, s.Flush())
	require.NoError(t, os.Rename(away, s.records()))
	require.NoError(t, s.Flush())
	got, err = newStore(dir).Get(one.ID)
	require.NoError(t, err)
	require.Equal(t, "stopped", got.Result)
}
