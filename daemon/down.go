package daemon

import (
	"context"
	"fmt"

	"polis/daemon/api"
	"polis/daemon/workspace/placement"
	"polis/lockd"
)

// Down removes a workspace from polis. It saves everything unsaved, removes the agents, and
// removes the workspace from the list. The directory stays: the same Up and a Restore bring
// everything back.
func (b *backend) Down(ctx context.Context, name string, req api.DownRequest) (api.DownResponse, error) {
	ws, err := b.Workspace(name)
	if api.CodeOf(err) == api.CodeWorkspaceNotFound && name != "" {
		return b.forgetMissing(name, err)
	}
	if err != nil {
		return api.DownResponse{}, err
	}
	// The same workspace must not be added meanwhile.
	b.upLock.Lock()
	defer b.upLock.Unlock()
	resp := api.DownResponse{Workspace: ws.Name, Path: string(ws.Root)}
	if resp.Removed, err = b.RemoveAgents(ctx, ws, req.Force, req.Ignored); err != nil {
		return resp, err
	}
	reg, err := b.readRegistry()
	if err == nil {
		delete(reg.Workspaces, ws.Name)
		err = b.writeRegistry(reg)
	}
	if err != nil {
		b.UndoRemoveAgents(ws)
		return resp, err
	}
	b.closeWorkspace(ws.Name)
	b.Forget(ws)
	b.Daemon.Log.Info("workspace removed from polis", "workspace", ws.Name, "path", ws.Root)
	b.hub.Publish(api.Event{Type: api.EventDown, Message: fmt.Sprintf("workspace %s was removed from polis; its directory %s stays", ws.Name, ws.Root), Data: map[string]any{"workspace": ws.Name, "path": resp.Path}})
	return resp, nil
}

// forgetMissing removes a workspace that is not open from the list if its directory is gone. A
// workspace whose directory exists or cannot be reached stays listed: it can contain work.
func (b *backend) forgetMissing(name string, notFound error) (api.DownResponse, error) {
	b.upLock.Lock()
	defer b.upLock.Unlock()
	reg, err := b.readRegistry()
	if err != nil {
		return api.DownResponse{}, err
	}
	n, root, listed := placement.Find(reg, name)
	if !listed || b.loaded(n) { // it can have been opened meanwhile
		return api.DownResponse{}, notFound
	}
	if err := placement.MayForget(n, root); err != nil {
		return api.DownResponse{}, err
	}
	delete(reg.Workspaces, n)
	if err := b.writeRegistry(reg); err != nil {
		return api.DownResponse{}, err
	}
	b.Daemon.Log.Warn("workspace without a directory forgotten", "workspace", n, "path", root)
	b.hub.Publish(api.Event{Type: api.EventDown, Message: fmt.Sprintf("workspace %s was forgotten: its directory %s is gone", n, root), Data: map[string]any{"workspace": n, "path": string(root)}})
	return api.DownResponse{Workspace: n, Path: string(root), Removed: []api.RemoveResponse{}, Gone: true}, nil
}

// closeWorkspace closes what the daemon has open for a workspace.
func (d *Daemon) closeWorkspace(name string) {
	d.mu.Lock()
	w := d.workspaces[name]
	d.mu.Unlock()
	if w == nil {
		return
	}
	w.queue.Close()
	if err := w.timeline.Close(); err != nil {
		d.Log.Warn("snapshots not closed", "workspace", name, "err", err)
	}
	d.mu.Lock()
	open := w.setupOpen
	w.setupOpen = false
	d.mu.Unlock()
	if open {
		w.setup.Close()
	}
	if r := d.conflictWatchOf(w); r != nil {
		r.Close()
	}
	for _, l := range d.locks.List(lockd.Filter{Workspace: name}) {
		if _, err := d.locks.Unlock(name, l.Holder, l.Path); err != nil {
			d.Log.Warn("lock not released", "workspace", name, "path", l.Path, "err", err)
		}
	}
	d.mu.Lock()
	delete(d.workspaces, name)
	d.mu.Unlock()
	if w.owner != nil {
		if err := w.owner.Remove(); err != nil {
			d.Log.Warn("workspace not released", "workspace", name, "err", err)
		}
	}
}
