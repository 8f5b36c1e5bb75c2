package daemon

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/authorship"
)

// finderOf returns what finds who wrote and read files of a workspace, or of that of an agent.
func (b *backend) finderOf(ctx context.Context, name, agent string) (*authorship.Finder, error) {
	if agent != "" {
		of, err := b.agents.WorkspaceOf(agent)
		if err != nil {
			return nil, err
		}
		if name != "" && name != of {
			return nil, api.Errorf(api.CodeBadRequest, "agent %s is of workspace %s", agent, of)
		}
		name = of
	}
	info, err := b.Workspace(name)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	w := b.workspaces[info.Name]
	b.mu.Unlock()
	if w == nil || !w.agents.Git {
		return nil, api.Errorf(api.CodeBadState, "workspace %s is not a git repository, or gone: it has no commits to read", info.Name)
	}
	b.Recorded(ctx)
	return &authorship.Finder{Workspace: info.Name, Git: w.git, Receipts: w.receipts, Now: time.Now, Checkpoints: w.timeline, Removed: func() []authorship.Former { return b.removedAgents(info.Name) },
		Tasks:  func(limit int) ([]api.Task, error) { return b.agents.AllTasks(info.Name, limit) },
		Agents: func(ctx context.Context) []api.Agent { return b.agents.List(ctx, info.Name) }}, nil
}

// removedAgents returns the agents that were removed from a workspace, oldest first.
func (b *backend) removedAgents(workspace string) (out []authorship.Former) {
	for _, r := range b.agents.RemovedFrom(workspace) {
		out = append(out, authorship.Former{Name: r.Agent.Name, Head: r.Head, Added: r.Agent.CreatedAt})
	}
	return out
}

// Blame returns which commit, agent and task each line of a file is of.
func (b *backend) Blame(ctx context.Context, name, agent, file string) (api.Blame, error) {
	f, err := b.finderOf(ctx, name, agent)
	if err != nil {
		return api.Blame{}, err
	}
	return f.Blame(ctx, agent, file)
}

// Who returns who read or wrote a path.
func (b *backend) Who(ctx context.Context, req api.WhoRequest) (api.Who, error) {
	f, err := b.finderOf(ctx, req.Workspace, req.Agent)
	if err != nil {
		return api.Who{}, err
	}
	return f.Who(ctx, req)
}
