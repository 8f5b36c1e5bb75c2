package maintain

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Last returns the report of a job's last run, with the time of the next one: an interval after the
// last, or after the workspace was made. Without an interval no next run has a time.
func (s *Scheduler) Last(j Job) api.MaintenanceReport {
	var rep api.MaintenanceReport
	if err := store.ReadJSON(j.File, &rep, s.Now()); err != nil {
		rep = api.MaintenanceReport{Steps: []api.MaintenanceStep{}}
		if !errors.Is(err, fs.ErrNotExist) {
			s.Log.Warn("last report of maintenance not read", "path", j.File, "err", err)
		}
	}
	rep.Workspace, rep.Next = j.Workspace, time.Time{}
	since := rep.StartedAt
	if since.IsZero() {
		if fi, err := os.Stat(filepath.Join(j.Maintainer.Repo.Dir, "config")); err == nil {
			since = fi.ModTime() // the time when the workspace was made
		}
	}
	if every := time.Duration(s.Settings().Interval); every > 0 {
		rep.Next = since.Add(every).UTC()
	}
	return rep
}

// indexLocked reports whether a git holds the lock of an index of a worktree. A directory that cannot
// be read counts as locked.
func indexLocked(bare string) bool {
	trees, err := os.ReadDir(filepath.Join(bare, "worktrees"))
	if err != nil {
		return !errors.Is(err, fs.ErrNotExist)
	}
	for _, t := range trees {
		if _, err := os.Lstat(filepath.Join(bare, "worktrees", t.Name(), "index.lock")); err == nil {
			return true
		}
	}
	return false
}
