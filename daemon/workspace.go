package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"polis/daemon/agent"
	"polis/daemon/agent/setup"
	"polis/daemon/api"
	"polis/daemon/git/branches"
	"polis/daemon/git/filtered"
	"polis/daemon/git/leases"
	"polis/daemon/git/maintain"
	"polis/daemon/git/worktree"
	"polis/daemon/history/policyrecord"
	"polis/daemon/history/receipt"
	"polis/daemon/history/timeline"
	"polis/daemon/merge"
	"polis/daemon/merge/conflictwatch"
	"polis/daemon/merge/queue"
	"polis/daemon/merge/remote"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/daemon/workspace/daemonlock"
	"polis/daemon/workspace/placement"
)

// workspace is a repository that polis manages: the agents' side and the git side.
type workspace struct {
	d         *Daemon
	root      layout.Workspace
	owner     *daemonlock.Lock // proves that the workspace is ours
	agents    *agent.Workspace
	git       *worktree.Workspace
	merger    *merge.Merger
	locks     *leases.Git
	remote    *remote.Broker
	branches  *branches.Follower      // nil without git
	conflicts *conflictwatch.Watcher  // as branches
	paths     *branches.TrackedKeeper // as branches
	ignoring  sync.Mutex              // of the ignore rules in the shared repository; no other lock is taken with it
	keptMu    sync.Mutex              // of kept; no other lock is taken with it
	kept      map[string]string       // which refs of the project agents do not have, as it was reported; it is not changed
	filter    *filtered.Keeper        // of the objects that agents may read
	queue     *queue.Worker
	setup     *setup.Worker
	setupOpen bool
	timeline  *timeline.Timeline
	receipts  *receipt.Store
	records   *policyrecord.Book
	flow      queue.FlowBook
	rework    *queue.Reworker
	signals   *queue.Recorder
	integrity *maintain.Record
	state     store.State
	file      store.StateFile
}

// Up makes a workspace, or opens an existing one.
func (b *backend) Up(ctx context.Context, req api.UpRequest, progress func(string)) (api.UpResponse, error) {
	b.upLock.Lock()
	defer b.upLock.Unlock()
	return b.Daemon.up(ctx, req, progress)
}

// up makes or opens a workspace. The caller holds upLock.
func (d *Daemon) up(ctx context.Context, req api.UpRequest, progress func(string)) (_ api.UpResponse, err error) {
	reg, err := d.readRegistry()
	if err != nil {
		return api.UpResponse{}, api.Errorf(api.CodeStateCorrupt, "list of workspaces: %w", err)
	}
	name, root, err := placement.Choose(req, reg, d.Config.WorkspacesDir)
	if err != nil {
		return api.UpResponse{}, err
	}
	_, listed := reg.Workspaces[name]
	// A listed workspace that could not be restored at start is restored now.
	known := d.loaded(name)
	local := ""
	if req.Repo != "" && !placement.IsURL(req.Repo) {
		local = req.Repo
	}
	if err := d.placeable(root, local, listed, reg); err != nil {
		return api.UpResponse{}, err
	}
	_, err = os.Lstat(root.Dir())
	fresh := errors.Is(err, os.ErrNotExist)
	if err := os.MkdirAll(string(root), 0o755); err != nil {
		return api.UpResponse{}, api.Errorf(api.CodeWorkspaceInvalid, "make workspace %s: %w", root, err)
	}
	var lock *daemonlock.Lock
	take := func() (err error) {
		if !known && lock == nil {
			lock, err = d.claimer().Workspace(ctx, root)
		}
		return err
	}
	defer func() {
		if err != nil && lock != nil {
			err = errors.Join(err, lock.Remove())
		}
	}()
	if !fresh {
		if err := take(); err != nil {
			return api.UpResponse{}, err
		}
	}
	var info worktree.Info
	rep := &agent.Report{}
	st, err := d.stateOf(name, root, rep)
	if err != nil {
		return api.UpResponse{}, err
	}
	spec, err := d.specOf(name, root, local, st, false)
	if err == nil {
		spec.Repo, spec.Target, spec.Plain, spec.Clone, spec.Progress = req.Repo, req.Target, d.staysPlain(name, st, req.AdoptGit), req.Clone, progress
		info, err = worktree.Up(ctx, spec)
	}
	if err != nil {
		if !listed && fresh {
			placement.Undo(root)
		}
		return api.UpResponse{}, err
	}
	if err := take(); err != nil { // a new workspace has no place for the lock until now
		return api.UpResponse{}, err
	}
	if !known {
		reg.Workspaces[name] = string(root)
		if err := d.writeRegistry(reg); err != nil {
			return api.UpResponse{}, err
		}
	}
	w := d.enter(ctx, name, root, info, int(spec.UID), int(spec.GID), lock)
	if !known {
		d.restoreAgents(ctx, w, st, rep)
		for _, e := range rep.Errors {
			d.Log.Warn("reconcile", "workspace", name, "err", e)
		}
	}
	if info.Git {
		w.queue.Open(ctx) // it can have been a plain directory until now
		d.openSetup(ctx, w)
	}
	resp := api.UpResponse{Created: info.Changed, ClonedFrom: info.ClonedFrom}
	for _, v := range d.agents.Workspaces() {
		if v.Name == name {
			resp.Workspace = v
		}
	}
	resp.Warnings = append(resp.Warnings, slices.Concat(placement.PlainWarnings(info, w.agents.AsUser, w.agents.UID), w.ownersNotices(ctx), d.submoduleNotice(ctx, w, ""))...)
	return resp, nil
}

// placeable refuses a place where a workspace must not lie. A listed workspace stays where it is.
func (d *Daemon) placeable(root layout.Workspace, local string, listed bool, reg store.Registry) error {
	if err := placement.CheckPaths(root, local, d.Config.RunDir, reg); err != nil || listed {
		return err
	}
	return placement.CheckUsers(root, d.live().Workspace.InUserDirectories, d.Config.WorkspacesDir)
}

// target returns the branch that merges go to.
func (w *workspace) target() string {
	w.d.mu.Lock()
	defer w.d.mu.Unlock()
	return w.state.TargetBranch
}

func (d *Daemon) warn(text string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.warnings {
		if w == text {
			return
		}
	}
	d.warnings = append(d.warnings, text)
	d.Log.Warn("warning", "text", text)
}

// enter registers the workspace with the daemon and the agents' manager.
func (d *Daemon) enter(ctx context.Context, name string, root layout.Workspace, info worktree.Info, uid, gid int, lock *daemonlock.Lock) *workspace {
	d.warnByGroup(info, name, root, gid)
	d.mu.Lock()
	w, ok := d.workspaces[name]
	if !ok {
		locks := &leases.Git{Table: d.locks, Workspace: name, Bare: root.Bare(), Log: d.Log}
		w = &workspace{d: d, root: root, owner: lock, locks: locks}
		w.setup = d.newSetup(name, w, uid, gid)
		w.git = worktree.Open(worktree.Config{Workspace: string(root), UID: uint32(uid), GID: uint32(gid), Log: d.Log, Locks: locks,
			Taken: func(branch, agent string) string { return d.agents.OnBranch(name, branch, agent) },
			Cone:  d.coneOf, Withheld: w.withheld, Changing: d.changing, Mounts: layers{}, Shared: d.sharesTrees, Setups: setupFiles{w.setup, d}, Changed: d.watchProject(name), Trashed: d.agents.Trashed})
		w.remote, w.merger = w.broker(), &merge.Merger{Workspace: w.git, Log: d.Log, Locks: locks, Charge: d.charge, Home: homeOf, Identity: d.mergeIdentity(name)}
		w.filter = filtered.New(w.git.Bare(), w.git.Internal(), root.Filtered(), d.Log)
		w.timeline, w.queue = w.newTimeline(name), &queue.Worker{Host: mergeHost{w}, Log: d.Log, Now: time.Now}
		w.receipts, w.records = d.newReceipts(name)
		w.rework, w.signals = d.newReworker(w, name, uid), w.newRecorder(name)
		w.integrity = &maintain.Record{Workspace: name, Dir: root.Bare(), Repo: w.git.Bare(), Target: w.target, Publish: func(e api.Event) { d.hub.Publish(e) }, Log: d.Log}
		d.workspaces[name] = w
	}
	w.state.Project, w.state.Git, w.state.TargetBranch, w.state.UID, w.state.GID = info.ProjectPath, info.Git, info.Target, uid, gid
	d.mu.Unlock()
	enter := &agent.Workspace{Name: name, Root: root, Project: info.ProjectPath, Git: info.Git, Target: info.Target,
		Owner: int(info.ProjectOwner.UID), UID: uid, GID: gid, AsUser: d.rootsTree(info, uid, gid), Record: info.Record, Repo: repo{w}}
	if info.Git {
		enter.Queue = w.queue
	}
	w.agents = d.agents.AddWorkspace(enter)
	if info.Git && !ok {
		_ = w.integrity.Check(ctx) //nolint:errcheck // the record has it, and status reports it
	}
	if info.Git {
		d.openBranches(w)
		d.openConflictWatch(w, name, root)
		d.openTracked(w, root)
		d.connectSetup(w)
	}
	return w
}

// restoreWorkspace opens a listed workspace at start.
func (d *Daemon) restoreWorkspace(ctx context.Context, name, path string, rep *agent.Report) (err error) {
	root := layout.Workspace(path)
	if _, err := os.Stat(root.Dir()); err != nil {
		e := api.Errorf(api.CodeWorkspaceInvalid, "workspace %s: %w", name, err)
		if errors.Is(err, os.ErrNotExist) {
			e.Message += "; polisctl down " + name + " forgets it"
		}
		return e
	}
	lock, err := d.claimer().Workspace(ctx, root)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Remove())
		}
	}()
	if text := placement.UsersWarning(name, root, d.live().Workspace.InUserDirectories); text != "" {
		d.warn(text)
	}
	st, err := d.readState(name, root, rep)
	if err != nil {
		return err
	}
	spec, err := d.specOf(name, root, "", st, false)
	if err != nil {
		return err
	}
	spec.Plain = placement.IsPlain(st)
	info, err := worktree.Up(ctx, spec)
	if err != nil {
		return err
	}
	w := d.enter(ctx, name, root, info, int(spec.UID), int(spec.GID), lock)
	if err := w.git.Sweep(ctx); err != nil {
		rep.Fail("workspace %s: %v", name, err)
	}
	d.restoreAgents(ctx, w, st, rep)
	return nil
}

func (d *Daemon) restoreAgents(ctx context.Context, w *workspace, st store.State, rep *agent.Report) {
	w.agents.Removed = st.Removed
	w.agents.Answers = d.readAnswers(w)
	w.queue.Load(st.Queue)
	w.flow.Load(st.Signals)
	d.races.Load(w.agents.Name, st.Races)
	for _, e := range w.queue.Entries() {
		rep.Heal("%s: was in the merge queue when the daemon ended; it is merged now, or found merged", e.Agent)
	}
	defer w.queue.Open(ctx)
	var trees []agent.Tree
	if w.agents.Git {
		list, err := w.git.List()
		if err != nil {
			rep.Errors = append(rep.Errors, fmt.Sprintf("workspace %s: %v", w.agents.Name, err))
			// Without the list no worktree can be reported as missing.
			for _, a := range st.Agents {
				trees = append(trees, agent.Tree{Name: a.Name})
			}
		}
		for _, t := range list {
			trees = append(trees, agent.Tree{Name: t.Agent, Broken: t.Broken, Missing: t.Missing()})
		}
	}
	// Restore saves the state: what an earlier polisd did not save, or not publish, is published then.
	w.flow.Sync(w.queue.Entries(), w.agents.Target, time.Now())
	d.agents.Restore(ctx, w.agents, st.Agents, trees, rep)
	w.signals.Announce()
}
