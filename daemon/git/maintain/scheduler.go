package maintain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// tick is the interval between the checks of whether maintenance is due.
const tick = time.Minute

// errClosed ends maintenance that runs when the daemon stops.
var errClosed = errors.New("the daemon stops")

// Job is the maintenance of one workspace. Maintainer gets the settings, log, clock and progress of
// the run.
type Job struct {
	Workspace  string
	Maintainer Maintainer
	// File records the last run.
	File string
	// Busy reports whether a git operation holds a lock of the repository.
	Busy func() bool
	// Checked gets the result of a run. It returns the damage of the repository, or nil.
	Checked func(error) error
	// Done is called after each run that is not a dry run.
	Done func(context.Context)
}

// Scheduler runs the maintenance of workspaces when it is due, one workspace at a time. Set the
// fields, then Open; Close ends it.
type Scheduler struct {
	Settings func() config.Maintenance
	// Jobs returns the jobs of all workspaces with a repository, in their order.
	Jobs    func() []Job
	Publish func(api.Event)
	Log     *slog.Logger
	Now     func() time.Time

	turn   chan struct{} // one token: one workspace at a time
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

// Open starts to run what is due.
func (s *Scheduler) Open(ctx context.Context) {
	s.turn = make(chan struct{}, 1)
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	s.wg.Go(func() {
		t := time.NewTicker(tick)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				s.runDue(s.ctx)
			case <-s.ctx.Done():
				return
			}
		}
	})
}

// Close ends a running maintenance; git is killed, not waited for.
func (s *Scheduler) Close() {
	if s.cancel != nil {
		s.cancel(errClosed)
		s.wg.Wait()
	}
}

// runDue maintains the workspaces that are due and idle.
func (s *Scheduler) runDue(ctx context.Context) {
	for _, j := range s.Jobs() {
		if ctx.Err() != nil || !s.due(j) {
			continue
		}
		if _, err := s.Run(ctx, j, false, nil); err != nil && ctx.Err() == nil {
			s.Log.Warn("maintenance", "workspace", j.Workspace, "err", err)
		}
	}
}

// due reports whether the time of a job has come and no git works on its repository.
func (s *Scheduler) due(j Job) bool {
	next := s.Last(j).Next
	return !next.IsZero() && !s.Now().Before(next) && !j.Busy() && !indexLocked(j.Maintainer.Repo.Dir)
}

// Run runs a job now, after any other that runs.
func (s *Scheduler) Run(ctx context.Context, j Job, dryRun bool, progress func(string)) (api.MaintenanceReport, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return api.MaintenanceReport{}, api.Errorf(api.CodeTimeout, "wait for other maintenance: %w", context.Cause(ctx))
	}
	c := s.Settings()
	ctx, stop := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer stop()
	m := j.Maintainer
	m.Grace, m.Timeout, m.Log, m.Now, m.Progress = time.Duration(c.Grace), time.Duration(c.Timeout), s.Log, s.Now, progress
	rep, err := m.Run(ctx, dryRun)
	if damage := j.Checked(err); damage != nil {
		err = damage
	}
	rep.Workspace = j.Workspace
	if err != nil {
		rep.Error = err.Error()
	}
	if dryRun {
		return rep, err
	}
	if serr := store.WriteJSON(j.File, rep); serr != nil {
		s.Log.Error("report of maintenance not saved", "path", j.File, "err", serr)
	}
	j.Done(ctx)
	s.report(rep, err)
	rep.Next = s.Last(j).Next
	return rep, err
}

// report logs and publishes what a run did.
func (s *Scheduler) report(rep api.MaintenanceReport, err error) {
	s.Log.Info("maintenance done", "workspace", rep.Workspace, "loose_before", rep.Before.LooseObjects, "loose_after", rep.After.LooseObjects,
		"bytes_before", rep.Before.LooseBytes+rep.Before.PackBytes, "bytes_after", rep.After.LooseBytes+rep.After.PackBytes, "removed", rep.Removed, "locked_ms", rep.LockedMillis)
	ev := api.Event{Type: api.EventMaintained, Message: fmt.Sprintf("maintenance of workspace %s: %d loose objects before, %d after; %d packs before, %d after; %d removed",
		rep.Workspace, rep.Before.LooseObjects, rep.After.LooseObjects, rep.Before.Packs, rep.After.Packs, rep.Removed), Data: map[string]any{"report": rep}}
	if err != nil {
		ev.Code = api.CodeOf(err)
	}
	s.Publish(ev)
}
