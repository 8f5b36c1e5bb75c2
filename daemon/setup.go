package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"time"

	"polis/cgroup"
	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/git/worktree"
	"polis/daemon/host/private"
	"polis/daemon/http/server"
	"polis/daemon/launch"
	"polis/daemon/store/layout"
)

// prepareDirs makes the run directory and the state directory.
func (d *Daemon) prepareDirs() error {
	d.gid = server.AdminGroup()
	// A directory that the administrator chose can have other uses, so its mode is changed only when it is made.
	// Everything in it has a mode of its own.
	own := config.Default()
	for _, s := range []struct {
		dir   string
		close bool
	}{{d.Config.RunDir, d.Config.RunDir == own.RunDir}, {d.run.Agents(), true}, {d.Config.WorkspacesDir, d.Config.WorkspacesDir == own.WorkspacesDir}} {
		if err := private.Shared(s.dir, s.close); err != nil {
			return fmt.Errorf("make %s: %w", s.dir, err)
		}
	}
	return nil
}

// placed reports whether polis chose the directory of a workspace.
func (d *Daemon) placed(root layout.Workspace) bool {
	return filepath.Dir(string(root)) == filepath.Clean(d.Config.WorkspacesDir)
}

// warnByGroup warns if more users than the owner can read what polis stores of a project.
func (d *Daemon) warnByGroup(info worktree.Info, name string, root layout.Workspace, gid int) {
	if info.ByGroup {
		d.warn(fmt.Sprintf("workspace %s: the file system of %s has no access control lists, so members of group %d can read what polis stores of the project", name, root.Dir(), gid))
	}
}

func (d *Daemon) openShims(ctx context.Context) (err error) {
	d.shims, err = launch.Open(ctx, launch.Deps{Run: d.run, Config: d.live, ConfigFile: d.ConfigFile, Systemd: d.Systemd, SocketGID: d.gid,
		Cgroups: d.cg, Bridge: d.bridge, Log: d.Log, Publish: func(e api.Event) { d.hub.Publish(e) }, Book: &d.modelBook,
		Roots: d.roots, Agents: func() launch.Agents { return d.agents }, LeftOpens: d.leftOpens})
	return err
}

// withHint is the text of an error for a person.
func withHint(err error) string {
	text := err.Error()
	if hint := api.AsError(err).Hint; hint != "" {
		text += "; " + hint
	}
	return text
}

// reconcile restores every known workspace and removes residue that belongs to no agent.
func (d *Daemon) reconcile(ctx context.Context) {
	rep := &agent.Report{}
	began := time.Now()
	reg, err := d.readRegistry()
	if err != nil {
		rep.Errors = append(rep.Errors, withHint(err))
	}
	whole := err == nil
	roots := make([]layout.Workspace, 0, len(reg.Workspaces))
	for _, path := range reg.Workspaces {
		roots = append(roots, layout.Workspace(path))
	}
	d.shims.WakeViews(ctx, roots)
	for name, path := range reg.Workspaces {
		if err := d.restoreWorkspace(ctx, name, path, rep); err != nil {
			d.Log.Error("workspace not restored", "workspace", name, "err", err)
			rep.Errors = append(rep.Errors, fmt.Sprintf("workspace %s: %s", name, withHint(err)))
			whole = false
		}
	}
	// If a workspace could not be read, its agents are unknown and can be at work. Residue is
	// removed only if all workspaces were read.
	if whole {
		d.agents.Sweep(ctx, rep)
	}
	rep.At, rep.TookMillis = began, time.Since(began).Milliseconds()
	d.report(rep)
}

// report stores, logs and publishes the result of the reconciliation.
func (d *Daemon) report(rep *agent.Report) {
	r := rep.ReconcileReport
	for _, l := range []*[]string{&r.Adopted, &r.Restored, &r.Kept, &r.Skipped, &r.Dropped, &r.Found, &r.Healed, &r.Errors} {
		if *l == nil {
			*l = []string{} // readers of JSON expect lists
		}
		sort.Strings(*l)
	}
	d.mu.Lock()
	d.reconciled = &r
	d.mu.Unlock()
	d.Log.Info("reconciled", "summary", r.Summary(), "took_ms", r.TookMillis)
	for _, l := range []struct {
		what  string
		lines []string
	}{{"skipped", r.Skipped}, {"dropped", r.Dropped}, {"found", r.Found}, {"healed", r.Healed}, {"error", r.Errors}} {
		for _, line := range l.lines {
			d.Log.Warn("reconcile", "did", l.what, "what", line)
		}
	}
	d.hub.Publish(api.Event{Type: api.EventReconciled, Message: "reconciled: " + r.Summary(), Data: map[string]any{"report": r}})
}

// Cleanup removes what agents share if polisd is gone and no agent lives. ExecStopPost and
// administrators call it.
func (d *Daemon) Cleanup(ctx context.Context) error {
	d.run, d.liveConfig = layout.Run(d.Config.RunDir), d.Config
	if err := d.checkSelf(); err != nil {
		return err
	}
	if _, err := os.Stat(d.Config.RunDir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	var err error
	if d.lock, err = d.claimer().RunDir(ctx, d.run); err != nil {
		return nil //nolint:nilerr // a living daemon clears up itself
	}
	if d.cg, err = cgroup.Detect(); err != nil {
		return errors.Join(err, d.Release())
	}
	if err := d.openBridge(); err != nil {
		return errors.Join(err, d.Release())
	}
	if err := d.openShims(ctx); err != nil {
		return errors.Join(err, d.Release())
	}
	names, err := d.shims.List(ctx)
	if err != nil {
		return errors.Join(err, d.Release())
	}
	var errs []error
	for _, n := range names {
		errs = append(errs, d.shims.ClearDead(ctx, n))
	}
	errs = append(errs, d.closeShared(ctx), d.Release())
	return errors.Join(errs...)
}
