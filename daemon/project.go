package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/worktree"
	"polis/daemon/store"
	"polis/daemon/store/layout"
	"polis/daemon/workspace/placement"
)

// specOf returns the spec of a workspace: to whom its project belongs, and whom its agents run as. local is the project
// of a new workspace.
//
// replace: the record is about to be replaced, and can be unreadable.
func (d *Daemon) specOf(name string, root layout.Workspace, local string, st store.State, replace bool) (worktree.Spec, error) {
	known := placement.Known{UID: st.UID, GID: st.GID}
	r, err := worktree.Open(worktree.Config{Workspace: string(root), Log: d.Log}).ReadRecord()
	switch {
	case err == nil:
		known.Record = &r
	case !errors.Is(err, os.ErrNotExist) && !replace:
		return worktree.Spec{}, err
	}
	configured := d.live().Sandbox.User
	as, err := placement.RunAs(root, local, configured, known)
	if err != nil {
		return worktree.Spec{}, err
	}
	if as.Fallback {
		d.warn(fmt.Sprintf("there is no user %s; agents of projects that belong to root run as uid %d", configured, as.UID))
	}
	return worktree.Spec{Workspace: string(root), UID: uint32(as.UID), GID: uint32(as.GID), Owner: &as.Owner, Private: d.placed(root), Changed: d.watchProject(name), Log: d.Log}, nil
}

// stateOf returns the state of a workspace, which is read from its file if it is not loaded.
func (d *Daemon) stateOf(name string, root layout.Workspace, rep *agent.Report) (store.State, error) {
	d.mu.Lock()
	w := d.workspaces[name]
	if w != nil {
		defer d.mu.Unlock()
		return w.state, nil
	}
	d.mu.Unlock()
	return d.readState(name, root, rep)
}

// watchProject returns what publishes that the project of a workspace is another one, and that it is the recorded
// one again: once each.
func (d *Daemon) watchProject(name string) func(error) {
	var mu sync.Mutex
	last := ""
	return func(err error) {
		mu.Lock()
		defer mu.Unlock()
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text == last {
			return
		}
		last = text
		e := api.Event{Type: api.EventProject, Data: map[string]any{"workspace": name}}
		if err != nil {
			e.Code, e.Message = api.CodeProjectChanged, text
			d.Log.Error("project of a workspace exchanged: nothing is read or written there", "workspace", name, "err", err)
		} else {
			e.Message = "the project of workspace " + name + " is the recorded one again"
		}
		d.hub.Publish(e)
	}
}

// MoveWorkspace records another directory as the project of a workspace.
func (b *backend) MoveWorkspace(ctx context.Context, name string, req api.MoveRequest) (api.Workspace, error) {
	return b.Daemon.moveWorkspace(ctx, name, req)
}

func (d *Daemon) moveWorkspace(ctx context.Context, name string, req api.MoveRequest) (api.Workspace, error) {
	d.upLock.Lock()
	defer d.upLock.Unlock()
	reg, err := d.readRegistry()
	if err != nil {
		return api.Workspace{}, api.Errorf(api.CodeStateCorrupt, "list of workspaces: %w", err)
	}
	name, root, listed := placement.Find(reg, name)
	if !listed {
		return api.Workspace{}, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", api.Shorten(name, 64)).WithHint("polisctl status lists them")
	}
	if err := placement.CheckPaths(root, req.Path, d.Config.RunDir, reg); err != nil {
		return api.Workspace{}, err
	}
	if living := d.living(name); len(living) > 0 {
		return api.Workspace{}, api.Errorf(api.CodeBadState, "agents of workspace %s are running: %s", name, api.Shorten(strings.Join(living, ", "), 200)).
			WithHint("polisctl agents stop NAME stops one: its sandbox shows the project as it was")
	}
	if err := d.record(ctx, name, root, req.Path); err != nil {
		return api.Workspace{}, err
	}
	resp, err := d.up(ctx, api.UpRequest{Path: string(root)}, func(string) {})
	if err == nil {
		d.Log.Info("project of a workspace recorded again", "workspace", name, "path", resp.Workspace.Project)
	}
	return resp.Workspace, err
}

// record replaces the recorded identity of a project.
func (d *Daemon) record(ctx context.Context, name string, root layout.Workspace, path string) (err error) {
	if !d.loaded(name) {
		lock, err := d.claimer().Workspace(ctx, root)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Remove()) }()
	}
	st, err := d.stateOf(name, root, &agent.Report{})
	if err != nil {
		return err
	}
	spec, err := d.specOf(name, root, "", st, true)
	if err != nil {
		return err
	}
	spec.Plain = d.staysPlain(name, st, false)
	_, err = worktree.Move(ctx, spec, path)
	return err
}

// living returns the agents of a workspace that have a sandbox.
func (d *Daemon) living(name string) (names []string) {
	for agent, status := range d.agents.Statuses(name) {
		if status != api.StatusStopped && status != api.StatusError {
			names = append(names, agent)
		}
	}
	slices.Sort(names)
	return names
}
