package maintain

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/store"
)

// schedulerOf returns a scheduler that is open, with the job of a repository.
func schedulerOf(t *testing.T, r *repo) (*Scheduler, *Job, *[]api.Event) {
	j := &Job{Workspace: "w", Maintainer: *r.maintainer(), File: filepath.Join(t.TempDir(), "maintained.json"), Busy: func() bool { return false },
		Checked: func(error) error { return nil }, Done: func(context.Context) {}}
	events := &[]api.Event{}
	s := &Scheduler{Settings: func() config.Maintenance {
		return config.Maintenance{Interval: setting.Duration(time.Hour), Grace: setting.Duration(time.Hour), Timeout: setting.Duration(time.Minute)}
	}, Jobs: func() []Job { return []Job{*j} }, Publish: func(e api.Event) { *events = append(*events, e) }, Log: slog.New(slog.DiscardHandler), Now: time.Now}
	s.Open(t.Context())
	t.Cleanup(s.Close)
	return s, j, events
}

func TestMaintenanceIsDueAnIntervalAfterTheLast(t *testing.T) {
	s, j, _ := schedulerOf(t, newRepo(t, "sha1"))
	made, err := os.Stat(filepath.Join(j.Maintainer.Repo.Dir, "config"))
	require.NoError(t, err)
	require.Equal(t, made.ModTime().Add(time.Hour).UTC(), s.Last(*j).Next, "the first is due an interval after the workspace was made")
	require.False(t, s.due(*j))
	began := time.Now().Add(-time.Hour).UTC()
	require.NoError(t, store.WriteJSON(j.File, api.MaintenanceReport{StartedAt: began, Removed: 3}))
	last := s.Last(*j)
	require.Equal(t, 3, last.Removed)
	require.Equal(t, "w", last.Workspace)
	require.Equal(t, began.Add(time.Hour), last.Next)
	require.True(t, s.due(*j))

	j.Busy = func() bool { return true }
	require.False(t, s.due(*j), "git holds a lock of a ref")
	j.Busy = func() bool { return false }
	lock := filepath.Join(j.Maintainer.Repo.Dir, "worktrees", "tree", "index.lock")
	require.NoError(t, os.Symlink("nothing", lock))
	require.False(t, s.due(*j), "git holds the lock of an index")
	require.NoError(t, os.Remove(lock))
	require.True(t, s.due(*j))

	s.Settings = func() config.Maintenance { return config.Maintenance{} }
	require.True(t, s.Last(*j).Next.IsZero())
	require.False(t, s.due(*j), "without an interval it is never due")
}

func TestADamagedReportIsNoReport(t *testing.T) {
	s, j, _ := schedulerOf(t, newRepo(t, "sha1"))
	require.NoError(t, os.WriteFile(j.File, []byte("{"), 0o600))
	last := s.Last(*j)
	require.Equal(t, api.MaintenanceReport{Workspace: "w", Steps: []api.MaintenanceStep{}, Next: last.Next}, last)
	require.False(t, last.Next.IsZero())
}

func TestARunIsRecordedAndADryRunIsNot(t *testing.T) {
	s, j, events := schedulerOf(t, newRepo(t, "sha1"))
	done := 0
	j.Done = func(context.Context) { done++ }
	rep, err := s.Run(t.Context(), *j, true, nil)
	require.NoError(t, err)
	require.True(t, rep.DryRun)
	require.NoFileExists(t, j.File)
	require.Empty(t, *events)
	require.Zero(t, done)

	rep, err = s.Run(t.Context(), *j, false, nil)
	require.NoError(t, err)
	require.Equal(t, rep.StartedAt.Add(time.Hour), rep.Next)
	require.Equal(t, 1, done)
	require.Len(t, *events, 1)
	require.Equal(t, api.EventMaintained, (*events)[0].Type)
	require.Equal(t, rep, s.Last(*j))

	j.Checked = func(error) error { return git.ErrDamaged }
	_, err = s.Run(t.Context(), *j, false, nil)
	require.ErrorIs(t, err, git.ErrDamaged, "damage counts more than what else failed")
	require.NotEmpty(t, (*events)[1].Code)
	require.Equal(t, git.ErrDamaged.Error(), s.Last(*j).Error)
}

func TestWorkspacesAreMaintainedOneAtATime(t *testing.T) {
	s, j, _ := schedulerOf(t, newRepo(t, "sha1"))
	running, end := make(chan struct{}), make(chan struct{})
	first := *j
	first.Done = func(context.Context) { close(running); <-end }
	go func() { _, _ = s.Run(context.Background(), first, false, nil) }() //nolint:errcheck // the second is of interest
	<-running
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the caller left"))
	_, err := s.Run(ctx, *j, false, nil)
	require.Equal(t, api.CodeTimeout, api.CodeOf(err))
	require.ErrorContains(t, err, "the caller left")
	close(end)
	_, err = s.Run(t.Context(), *j, false, nil)
	require.NoError(t, err)
	s.Close()
	s.turn <- struct{}{}
	_, err = s.Run(t.Context(), *j, false, nil)
	require.ErrorIs(t, err, errClosed)
}
