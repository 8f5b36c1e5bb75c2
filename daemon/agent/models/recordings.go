package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/config"
	"polis/daemon/gateway/recording"
	"polis/daemon/history/task"
)

// sweepEvery is how often recordings are removed that need not be kept, if no task begins before.
const sweepEvery = time.Hour

// Sweeper removes recordings that are too old or too many. Set the fields, then call Run.
type Sweeper struct {
	// Dirs returns the directories with the log directories of agents.
	Dirs   func() []string
	Limits func() config.Recordings
	Log    *slog.Logger
	Now    func() time.Time
	wake   chan struct{}
}

// Open prepares Wake.
func (s *Sweeper) Open() { s.wake = make(chan struct{}, 1) }

// Wake has Run sweep soon: a task begins, whose recording takes space.
func (s *Sweeper) Wake() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Run sweeps now, at each Wake, and from time to time, until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	t := time.NewTicker(sweepEvery)
	defer t.Stop()
	for {
		if err := s.Sweep(); err != nil {
			s.Log.Warn("recordings not removed", "op", "recordings", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		case <-s.wake:
		}
	}
}

// kept is a recording on disk.
type kept struct {
	path string
	size int64
	last time.Time // of its last line
	task bool      // the record of its task exists
}

// Sweep removes the recordings of tasks whose records are gone, those that are older than they may be,
// and of the others the oldest until they have the size that they may have together.
func (s *Sweeper) Sweep() error {
	var all []kept
	var errs []error
	for _, dir := range s.Dirs() {
		found, err := recordings(dir)
		all = append(all, found...)
		errs = append(errs, err)
	}
	slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.last.Compare(b.last), cmp.Compare(a.path, b.path)) })
	c := s.Limits()
	total, oldest := int64(0), s.Now().Add(-time.Duration(c.Keep))
	for _, k := range all {
		total += k.size
	}
	for _, k := range all {
		if k.task && !k.last.Before(oldest) && total <= int64(c.MaxMB)<<20 {
			continue
		}
		if err := os.Remove(k.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("remove a recording: %w", err))
			continue
		}
		total -= k.size
		s.Log.Debug("recording removed", "op", "recordings", "path", k.path)
	}
	return errors.Join(errs...)
}

// recordings returns those of the agents with logs in a directory.
func recordings(dir string) (all []kept, err error) {
	files, err := filepath.Glob(filepath.Join(globQuote(dir), "*", recording.DirName, "*"+recording.Suffix))
	if err != nil {
		return nil, fmt.Errorf("recordings in %s: %w", dir, err)
	}
	var errs []error
	for _, path := range files {
		st, err := os.Lstat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		id := strings.TrimSuffix(filepath.Base(path), recording.Suffix)
		all = append(all, kept{path: path, size: st.Size(), last: st.ModTime(), task: task.Exists(filepath.Dir(filepath.Dir(path)), id)})
	}
	return all, errors.Join(errs...)
}

// globQuote makes a pattern of a path that stands for itself.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}
