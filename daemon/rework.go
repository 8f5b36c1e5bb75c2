package daemon

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/merge/queue"
)

// newReworker returns what gives the failed merges of a workspace to agents.
func (d *Daemon) newReworker(w *workspace, name string, uid int) *queue.Reworker {
	return &queue.Reworker{Workspace: name, Book: &w.flow, Agents: d.agents, Output: func(log string) (string, error) { return checkTail(w.root, uid, log) }, Save: func() error { return d.agents.SaveWorkspace(name) },
		Publish: func(e api.Event) { d.hub.Publish(e) }, Halted: d.halted.Load, Log: d.Log}
}

// Rework starts the rework of an agent's last failed merge, for a person.
func (b *backend) Rework(ctx context.Context, name string, req api.ReworkRequest) (api.MergeSignal, error) {
	a, err := b.Get(ctx, name)
	if err != nil {
		return api.MergeSignal{}, err
	}
	ws := b.sorted(a.Workspace)
	if len(ws) == 0 {
		return api.MergeSignal{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", a.Workspace)
	}
	return ws[0].rework.Begin(ctx, name, req.Same) // names of workspaces are unique
}

// reworkDue starts the reworks that the configuration wants, and those that an earlier polisd began.
func (d *Daemon) reworkDue(ctx context.Context) {
	for _, w := range d.sorted("") {
		w.rework.Due(ctx)
	}
}
