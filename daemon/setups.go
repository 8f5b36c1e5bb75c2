package daemon

import (
	"context"
	"time"

	"polis/daemon/agent/setup"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/git/worktree"
)

// newSetup returns what makes the results of a workspace's setup command. Its worktrees are opened
// later.
func (d *Daemon) newSetup(name string, w *workspace, uid, gid int) *setup.Worker {
	return &setup.Worker{Workspace: name, Store: setup.NewStore(w.root.Setups(), uid, gid, d.Log), Turn: d.setupTurn,
		Rules:  func() config.SetupRules { c := d.live(); return c.SetupRules(name) },
		Shared: d.sharesTrees, Publish: func(e api.Event) { d.hub.Publish(e) }, Log: d.Log, Now: time.Now}
}

func (d *Daemon) sharesTrees() bool { return d.live().Workspace.Worktree == config.WorktreeShared }

// setupFiles implements worktree.Setups.
type setupFiles struct {
	*setup.Worker
	d *Daemon
}

// Claim has nothing for an agent whose rules withhold files: the command could read them all, and
// what it made can contain them.
func (s setupFiles) Claim(ctx context.Context, agent, tree string, claim func(worktree.SetupRecord) error) error {
	p, known := s.d.agents.Policies(s.Workspace)[agent]
	if !known {
		return nil
	}
	if _, set, err := s.d.reading(p); err != nil || !set.AllReadable() {
		return err
	}
	return s.Worker.Claim(ctx, tree, func(r setup.Record) error {
		return claim(worktree.SetupRecord{ID: r.ID, Outputs: r.Outputs})
	})
}

// ClaimMade is for checks.
func (s setupFiles) ClaimMade(ctx context.Context, tree string, claim func(worktree.SetupRecord) error) error {
	return s.Worker.ClaimMade(ctx, tree, func(r setup.Record) error {
		return claim(worktree.SetupRecord{ID: r.ID, Outputs: r.Outputs})
	})
}

func (s setupFiles) Tree(id string) (string, error) { return s.Store.Tree(id) }

// openSetups starts the setup commands of all workspaces. Shims that an earlier polisd left are gone.
func (d *Daemon) openSetups(ctx context.Context) {
	if d.halted.Load() {
		return
	}
	for _, w := range d.gitWorkspaces("") {
		d.openSetup(ctx, w)
	}
}

// openSetup starts the setup commands of a workspace, unless that is done.
func (d *Daemon) openSetup(ctx context.Context, w *workspace) {
	d.mu.Lock()
	opened := w.setupOpen
	w.setupOpen = true
	d.mu.Unlock()
	if !opened {
		w.setup.Open(ctx)
	}
}

// connectSetup connects the setup command of a workspace to its worktrees and branches.
func (d *Daemon) connectSetup(w *workspace) {
	if w.setup.Moved != nil {
		return
	}
	ws := w.agents
	r := &setup.Runner{Workspace: ws.Name, Root: ws.Root, Project: ws.Recorded, UID: ws.UID, GID: ws.GID, Config: d.live, Store: w.setup.Store, Trees: w.git,
		Shims: d.shims.Setups(), Log: d.Log,
		Sandbox: func(ctx context.Context, name string) (wire.Spec, error) {
			return d.shims.Setups().Connected(ctx, name, ws.UID)
		}}
	w.setup.Trees, w.setup.Run, w.setup.Reset, w.setup.Environment = w.git, r.Run, r.Reset, r.Environment
	w.setup.Files, w.setup.Moved = w.git.Bare().Files, w.branches.Moved()
	w.setup.Target = func(ctx context.Context) (string, error) {
		tips, err := w.branches.Last(ctx)
		if err != nil {
			return "", err
		}
		return w.git.FirstTree(ctx, tips.Onto)
	}
}

// refreshSetups has the configuration compared with what was made.
func (d *Daemon) refreshSetups() {
	for _, w := range d.openedSetups() {
		w.Refresh()
	}
}

// openedSetups returns the workers that run.
func (d *Daemon) openedSetups() []*setup.Worker {
	d.mu.Lock()
	defer d.mu.Unlock()
	var open []*setup.Worker
	for _, w := range d.workspaces {
		if w.setupOpen {
			open = append(open, w.setup)
		}
	}
	return open
}

// closeSetups ends the setup commands.
func (d *Daemon) closeSetups() {
	for _, s := range d.openedSetups() {
		s.Close()
	}
}

// maintainSetup compares the results of the setup command with their checksums and removes unused ones.
func (d *Daemon) maintainSetup(ctx context.Context, w *workspace) {
	d.mu.Lock()
	open := w.setupOpen
	d.mu.Unlock()
	if !open {
		return
	}
	if err := w.setup.Maintain(ctx); err != nil && ctx.Err() == nil {
		d.Log.Warn("results of the setup command not maintained", "workspace", w.agents.Name, "op", "setup", "err", err)
	}
}
