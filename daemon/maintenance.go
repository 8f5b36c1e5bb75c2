package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/maintain"
	"polis/daemon/store"
)

// upkeepTick is the interval between the checks of whether maintenance is due.
const upkeepTick = time.Minute

// upkeep runs maintenance, one workspace at a time.
type upkeep struct {
	turn   chan struct{} // one token: one workspace at a time
	ctx    context.Context
	cancel context.CancelCauseFunc
	wg     sync.WaitGroup
}

func (d *Daemon) startUpkeep(ctx context.Context) {
	u := &upkeep{turn: make(chan struct{}, 1)}
	u.ctx, u.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	d.upkeep = u
	u.wg.Go(func() { d.shims.activity.Run(u.ctx) })
	u.wg.Go(func() { d.patrol.run(u.ctx) })
	notices := d.questionNotices()
	u.wg.Go(func() { notices.Run(u.ctx) })
	u.wg.Go(func() { d.followQuestions(u.ctx, notices) })
	escalator := d.escalator()
	u.wg.Go(func() { escalator.Run(u.ctx) })
	u.wg.Go(func() {
		tick := time.NewTicker(upkeepTick)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				d.maintainDue(u.ctx)
			case <-u.ctx.Done():
				return
			}
		}
	})
}

// stopUpkeep stops a running maintenance; git is killed, not waited for.
func (d *Daemon) stopUpkeep() {
	if d.upkeep != nil {
		d.upkeep.cancel(errors.New("the daemon stops"))
		d.upkeep.wg.Wait()
	}
}

// maintainDue maintains the workspaces that are due and idle.
func (d *Daemon) maintainDue(ctx context.Context) {
	for _, w := range d.gitWorkspaces("") {
		last := d.maintained(w)
		if ctx.Err() != nil || last.Next.IsZero() || time.Now().Before(last.Next) || d.gitAtWork(w) {
			continue
		}
		if _, err := d.maintain(ctx, w, false, nil); err != nil && ctx.Err() == nil {
			d.Log.Warn("maintenance", "workspace", w.agents.Name, "err", err)
		}
	}
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

// gitAtWork reports whether a git process holds a lock now.
func (d *Daemon) gitAtWork(w *workspace) bool {
	if w.locks.Busy() {
		return true
	}
	held, err := filepath.Glob(filepath.Join(globQuote(w.agents.Root.Bare()), "worktrees", "*", "index.lock"))
	return err != nil || len(held) > 0
}

// maintained returns the last report, with the time of the next run.
func (d *Daemon) maintained(w *workspace) api.MaintenanceReport {
	var rep api.MaintenanceReport
	root := w.agents.Root
	err := store.ReadJSON(root.Maintained(), &rep, time.Now())
	if err != nil {
		rep = api.MaintenanceReport{Steps: []api.MaintenanceStep{}}
		if !errors.Is(err, fs.ErrNotExist) {
			d.Log.Warn("last report of maintenance not read", "path", root.Maintained(), "err", err)
		}
	}
	rep.Workspace = w.agents.Name
	since := rep.StartedAt
	if since.IsZero() {
		if fi, err := os.Stat(filepath.Join(root.Bare(), "config")); err == nil {
			since = fi.ModTime() // the time when the workspace was made
		}
	}
	rep.Next = time.Time{}
	if every := time.Duration(d.live().Maintenance.Interval); every > 0 {
		rep.Next = since.Add(every).UTC()
	}
	return rep
}

// maintain runs maintenance now, after any other that runs.
func (d *Daemon) maintain(ctx context.Context, w *workspace, dryRun bool, say func(string)) (api.MaintenanceReport, error) {
	u := d.upkeep
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(u.ctx, func() { cancel(context.Cause(u.ctx)) })()
	select {
	case u.turn <- struct{}{}:
		defer func() { <-u.turn }()
	case <-ctx.Done():
		return api.MaintenanceReport{}, api.Errorf(api.CodeTimeout, "wait for other maintenance: %w", context.Cause(ctx))
	}
	c, root := d.live().Maintenance, w.agents.Root
	ctx, stop := context.WithTimeout(ctx, time.Duration(c.Timeout))
	defer stop()
	m := &maintain.Maintainer{Repo: w.git.Bare(), Target: git.Branch(w.agents.Target), Internal: w.git.Internal(), Private: root.Privates(), Grace: time.Duration(c.Grace), Timeout: time.Duration(c.Timeout), Log: d.Log, Now: time.Now, Progress: say,
		Exclusive: func(ctx context.Context) (func(), error) { return w.locks.AcquireExclusive(ctx, "maintenance") }}
	rep, err := m.Run(ctx, dryRun)
	if damage := w.integrity.Note(err); damage != nil {
		err = damage
	}
	rep.Workspace = w.agents.Name
	if err != nil {
		rep.Error = err.Error()
	}
	if dryRun {
		return rep, err
	}
	if serr := store.WriteJSON(root.Maintained(), rep); serr != nil {
		d.Log.Error("report of maintenance not saved", "path", root.Maintained(), "err", serr)
	}
	d.maintainBases(ctx, w)
	d.invalidateViews(ctx, w)
	d.Log.Info("maintenance done", "workspace", w.agents.Name, "loose_before", rep.Before.LooseObjects, "loose_after", rep.After.LooseObjects,
		"bytes_before", rep.Before.LooseBytes+rep.Before.PackBytes, "bytes_after", rep.After.LooseBytes+rep.After.PackBytes, "removed", rep.Removed, "locked_ms", rep.LockedMillis)
	d.hub.Publish(api.Event{Type: api.EventMaintained, Code: codeOf(err), Message: fmt.Sprintf("maintenance of workspace %s: %d loose objects before, %d after; %d packs before, %d after; %d removed",
		w.agents.Name, rep.Before.LooseObjects, rep.After.LooseObjects, rep.Before.Packs, rep.After.Packs, rep.Removed), Data: map[string]any{"report": rep}})
	rep.Next = d.maintained(w).Next
	return rep, err
}

func codeOf(err error) api.Code {
	if err == nil {
		return ""
	}
	return api.CodeOf(err)
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
	w := b.gitWorkspaces(ws.Name)
	if len(w) == 0 {
		return api.MaintenanceReport{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	rep, err := b.maintain(ctx, w[0], req.DryRun, say)
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
	for _, w := range b.gitWorkspaces(workspace) {
		out = append(out, b.maintained(w))
	}
	return out, nil
}

// globQuote returns the filepath.Match pattern that matches only path.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
