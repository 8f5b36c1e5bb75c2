package daemon

import (
	"context"
	"sort"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/conflictwatch"
	"polis/daemon/layout"
	"polis/daemon/store"
	"polis/daemon/tracked"
	"polis/lockd"
)

// openConflictWatch starts the conflict watch of a workspace. Agents work without one, so its
// failure is a warning.
func (d *Daemon) openConflictWatch(w *workspace, name string, root layout.Workspace) {
	if d.conflictWatchOf(w) != nil {
		return
	}
	r := &conflictwatch.Watcher{Workspace: name, Git: w.git, Scratch: root.Tries(), Turn: d.looking, Log: d.Log, Now: time.Now,
		Leases:  func() []api.Lock { return d.fileLeases(name) },
		Publish: func(e api.Event) { d.hub.Publish(e) }, Charge: d.charge}
	if err := r.Open(context.Background()); err != nil {
		d.warn("conflicts in workspace " + name + " are not detected: " + err.Error())
		return
	}
	d.mu.Lock()
	w.conflicts = r
	d.mu.Unlock()
}

// openTracked starts to keep the set of tracked paths of a workspace.
func (d *Daemon) openTracked(w *workspace, root layout.Workspace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.paths != nil {
		return
	}
	w.paths = &tracked.Keeper{Repo: w.git.Bare(), Target: w.git.Target, File: root.Tracked(), Log: d.Log}
	w.paths.Open(context.Background())
}

// closeTracked ends the sets of tracked paths. Their git is killed, not waited for.
func (d *Daemon) closeTracked() {
	d.mu.Lock()
	var ks []*tracked.Keeper
	for _, w := range d.workspaces {
		if w.paths != nil {
			ks = append(ks, w.paths)
		}
	}
	d.mu.Unlock()
	for _, k := range ks {
		k.Close()
	}
}

func (d *Daemon) conflictWatchOf(w *workspace) *conflictwatch.Watcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	return w.conflicts
}

// closeConflictWatches ends the conflict watches. Their git is killed, not waited for.
func (d *Daemon) closeConflictWatches() {
	for _, r := range d.conflictWatches("") {
		r.Close()
	}
}

// conflictWatches returns the conflict watches of one workspace or, if workspace is "", of all,
// ordered by name.
func (d *Daemon) conflictWatches(workspace string) []*conflictwatch.Watcher {
	d.mu.Lock()
	defer d.mu.Unlock()
	var rs []*conflictwatch.Watcher
	for name, w := range d.workspaces {
		if w.conflicts != nil && (workspace == "" || workspace == name) {
			rs = append(rs, w.conflicts)
		}
	}
	sort.Slice(rs, func(i, j int) bool { return rs[i].Workspace < rs[j].Workspace })
	return rs
}

// updateConflictWatch passes the current branches to the watch.
func (d *Daemon) updateConflictWatch(w *workspace, kept []store.Agent) {
	r := d.conflictWatchOf(w)
	if r == nil {
		return
	}
	as := make([]conflictwatch.Agent, 0, len(kept))
	for _, k := range kept {
		if k.Branch != "" {
			as = append(as, conflictwatch.Agent{Name: k.Name, Branch: k.Branch})
		}
	}
	r.SetAgents(as)
	d.mu.Lock()
	k := w.paths
	d.mu.Unlock()
	if k != nil {
		names := make([]string, len(as))
		for i, a := range as {
			names[i] = a.Branch
		}
		k.SetBranches(names)
	}
}

// fileLeases returns the leases of files in a workspace. Leases of refs last a moment and do not
// concern files.
func (d *Daemon) fileLeases(workspace string) []api.Lock {
	var out []api.Lock
	for _, l := range d.locks.List(lockd.Filter{Workspace: workspace}) {
		if lockd.FileKey(lockd.FilePath(l.Path)) == l.Path {
			out = append(out, apiLock(l))
		}
	}
	return out
}

// Conflicts triggers a scan of every conflict watch.
func (b *backend) Conflicts(ctx context.Context, workspace string) ([]api.Conflicts, error) {
	if workspace != "" {
		ws, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	rs := b.conflictWatches(workspace)
	out := make([]api.Conflicts, len(rs))
	var wg sync.WaitGroup
	for i, r := range rs {
		wg.Go(func() { out[i] = r.Report(ctx) })
	}
	wg.Wait()
	return out, nil
}

func (d *Daemon) conflictCount() (n api.ConflictCount) {
	for _, r := range d.conflictWatches("") {
		c := r.Count()
		n.Merges, n.Paths = n.Merges+c.Merges, n.Paths+c.Paths
	}
	return n
}
