package daemon

import (
	"context"
	"errors"
	"sort"
	"sync"
	"time"

	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git"
	"polis/daemon/git/maintain"
)

// maxEnded bounds the agents whose task has ended and whose use of models is not reported yet.
const maxEnded = 64

// upkeep runs what the daemon does by itself. Maintenance has a scheduler of its own.
type upkeep struct {
	maintenance *maintain.Scheduler
	models      *models.Reporter
	cancel      context.CancelCauseFunc
	wg          sync.WaitGroup
}

func (d *Daemon) startUpkeep(ctx context.Context) {
	u := &upkeep{maintenance: &maintain.Scheduler{Settings: func() config.Maintenance { return d.live().Maintenance }, Jobs: func() []maintain.Job { return d.maintenanceJobs("") },
		Publish: func(e api.Event) { d.hub.Publish(e) }, Log: d.Log, Now: time.Now}}
	ctx, u.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	d.upkeep = u
	u.maintenance.Open(ctx)
	d.shims.Watch(ctx)
	u.wg.Go(func() { d.patrol.run(ctx) })
	u.wg.Go(func() { d.keepSockets(ctx) })
	u.wg.Go(func() { d.metrics.Follow(ctx, d.hub) })
	u.wg.Go(func() { d.resumeRestores(ctx) })
	u.models = d.modelReporter()
	ended := make(chan string, maxEnded)
	u.models.Ended = ended
	u.wg.Go(func() { d.tellEnded(ctx, ended) })
	u.wg.Go(func() { u.models.Run(ctx) })
	clock := d.checkpointClock()
	u.wg.Go(func() { clock.Run(ctx) })
	u.wg.Go(func() { d.recordings.Run(ctx) })
	questions := d.questions()
	u.wg.Go(func() { questions.Run(ctx) })
	happenings := d.happenings()
	u.wg.Go(func() { happenings.Run(ctx) })
	escalator := d.escalator()
	u.wg.Go(func() { escalator.Run(ctx) })
}

// stopUpkeep stops a running maintenance; git is killed, not waited for.
func (d *Daemon) stopUpkeep() {
	if d.upkeep != nil {
		d.upkeep.cancel(errors.New("the daemon stops"))
		d.upkeep.maintenance.Close()
		d.upkeep.wg.Wait()
		d.desktop.Wait()
		d.shims.Close()
	}
}

// maintenanceJobs returns the maintenance of the workspaces with a repository, as gitWorkspaces.
func (d *Daemon) maintenanceJobs(only string) []maintain.Job {
	var jobs []maintain.Job
	for _, w := range d.gitWorkspaces(only) {
		root := w.agents.Root
		jobs = append(jobs, maintain.Job{Workspace: w.agents.Name, File: root.Maintained(), Busy: w.locks.Busy, Checked: w.integrity.Note,
			Maintainer: maintain.Maintainer{Repo: w.git.Bare(), Target: git.Branch(w.agents.Target), Internal: w.git.Internal(), Private: root.Privates(),
				Exclusive: func(ctx context.Context) (func(), error) { return w.locks.AcquireExclusive(ctx, "maintenance") }},
			Done: func(ctx context.Context) {
				d.maintainSetup(ctx, w) // first: a base can be that of a run
				d.maintainBases(ctx, w)
				d.collectSnapshots(ctx, w)
				d.invalidateViews(ctx, w)
			}})
	}
	return jobs
}

// gitWorkspaces returns the workspaces with a repository, ordered by name; only the one called
// only if it is not "".
func (d *Daemon) gitWorkspaces(only string) []*workspace {
	d.mu.Lock()
	defer d.mu.Unlock()
	var ws []*workspace
	for name, w := range d.workspaces {
		if w.state.Git && w.agents != nil && (only == "" || only == name) {
			ws = append(ws, w)
		}
	}
	sort.Slice(ws, func(i, j int) bool { return ws[i].agents.Name < ws[j].agents.Name })
	return ws
}

// invalidateViews makes the kernel drop its cache of files that went into packs.
func (d *Daemon) invalidateViews(ctx context.Context, w *workspace) {
	for name, status := range d.agents.Statuses(w.agents.Name) {
		if status != api.StatusIdle && status != api.StatusRunning {
			continue
		}
		sh := d.shims.Dial(name)
		if err := sh.Invalidate(ctx); err != nil {
			d.Log.Warn("view not notified of maintenance", "agent", name, "err", err)
		}
		sh.Close()
	}
}

// Maintain runs maintenance of a workspace for the API.
func (b *backend) Maintain(ctx context.Context, req api.MaintenanceRequest, say func(string)) (api.MaintenanceReport, error) {
	ws, err := b.Workspace(req.Workspace)
	if err != nil {
		return api.MaintenanceReport{}, err
	}
	if err := ws.NeedsGit("there is nothing to maintain"); err != nil {
		return api.MaintenanceReport{}, err
	}
	jobs := b.maintenanceJobs(ws.Name)
	if len(jobs) == 0 {
		return api.MaintenanceReport{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	rep, err := b.upkeep.maintenance.Run(ctx, jobs[0], req.DryRun, say)
	if err != nil && api.CodeOf(err) == api.CodeInternal {
		err = api.Errorf(api.CodeInternal, "maintenance of workspace %s: %w", ws.Name, err).WithHint("nothing that may be needed was removed; polisctl maintenance shows what was done")
	}
	return rep, err
}

// Maintenance returns the last report of each workspace, or of one.
func (b *backend) Maintenance(workspace string) ([]api.MaintenanceReport, error) {
	if workspace != "" {
		ws, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	out := []api.MaintenanceReport{}
	for _, j := range b.maintenanceJobs(workspace) {
		out = append(out, b.upkeep.maintenance.Last(j))
	}
	return out, nil
}
