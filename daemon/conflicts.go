package daemon

import (
	"context"
	"sort"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/git/branches"
	"polis/daemon/git/leases"
	"polis/daemon/merge/conflictwatch"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/lockd"
)

// openBranches starts to follow the branches of a workspace.
func (d *Daemon) openBranches(w *workspace) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if w.branches != nil {
		return
	}
	w.branches = &branches.Follower{Repo: w.git.Bare(), Target: w.git.Target, Log: d.Log}
	w.branches.Open(context.Background())
}

// closeBranches ends that, after what acts on it.
func (d *Daemon) closeBranches() {
	d.mu.Lock()
	var fs []*branches.Follower
	for _, w := range d.workspaces {
		if w.branches != nil {
			fs = append(fs, w.branches)
		}
	}
	d.mu.Unlock()
	for _, f := range fs {
		f.Close()
	}
}

// openConflictWatch starts the conflict watch of a workspace. Agents work without one, so its
// failure is a warning.
func (d *Daemon) openConflictWatch(w *workspace, name string, root layout.Workspace) {
	if d.conflictWatchOf(w) != nil {
		return
	}
	r := &conflictwatch.Watcher{Workspace: name, Git: w.git, Branches: w.branches, Scratch: root.Tries(), Turn: d.scanTurn, Log: d.Log, Now: time.Now,
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
	w.paths = &branches.TrackedKeeper{Repo: w.git.Bare(), Branches: w.branches, File: root.Tracked(), Charge: d.charge, Log: d.Log}
	w.paths.Open(context.Background())
}

// closeTracked ends the sets of tracked paths. Their git is killed, not waited for.
func (d *Daemon) closeTracked() {
	d.mu.Lock()
	var ks []*branches.TrackedKeeper
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

// updateBranches sets whose branches are followed.
func (d *Daemon) updateBranches(w *workspace, kept []store.Agent) {
	d.mu.Lock()
	f := w.branches
	d.mu.Unlock()
	if f == nil {
		return
	}
	as := make([]branches.Agent, 0, len(kept))
	for _, k := range kept {
		if k.Branch != "" {
			as = append(as, branches.Agent{Name: k.Name, Branch: k.Branch})
		}
	}
	f.SetAgents(as)
}

// fileLeases returns the leases of files in a workspace.
func (d *Daemon) fileLeases(workspace string) []api.Lock {
	var out []api.Lock
	for _, l := range leases.OfFiles(d.locks.List(lockd.Filter{Workspace: workspace})) {
		out = append(out, leases.Lock(l))
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
