package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/agent/race"
	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/pause"
)

// scanTime is how long a race waits for a scan of conflicts that has its last commits.
const scanTime = 10 * time.Second

func (d *Daemon) newRaces() *race.Runner {
	return &race.Runner{Agents: racers{d}, Save: func(ws string) error { return d.agents.SaveWorkspace(ws) }, Publish: func(e api.Event) { d.hub.Publish(e) }, Log: d.Log, Now: time.Now}
}

// racers implements race.Agents.
type racers struct{ d *Daemon }

func (r racers) Start(ctx context.Context, x api.Race, p api.Racer) (string, error) {
	no, q := false, x.Request
	spec := q.Spec()
	spec.Workspace = x.Workspace
	add := api.AddRequest{Name: p.Agent, BaseType: p.BaseType, AgentSpec: spec, AutoMerge: &no, Race: x.ID, Base: x.Base}
	return r.d.agents.AddRacer(ctx, add, api.RunRequest{Prompt: q.Task, Model: q.Model, Commit: true})
}

func (r racers) Await(ctx context.Context, p *api.Racer) error {
	t, err := r.d.agents.Task(ctx, p.Task, true)
	if err != nil || ctx.Err() != nil {
		return err
	}
	p.Result, p.OK, p.Seconds, p.Commits, p.Head = t.Result, agent.TaskOK(t), t.Seconds, t.Commits, t.Head
	if t.Report != nil && t.Report.CostUSD > 0 {
		p.CostUSD = &t.Report.CostUSD
	}
	p.Models = r.d.taskUse(t.ID)
	if t.Commits == 0 {
		return nil
	}
	text, err := r.d.agents.DiffStat(ctx, p.Agent, t.Base, t.Head)
	if err != nil {
		r.d.Log.Warn("changes of a race not measured", "agent", p.Agent, "err", err)
	}
	p.Files, p.Insertions, p.Deletions = race.Stat(text)
	return nil
}

func (r racers) Check(ctx context.Context, x api.Race, p api.Racer) (int, string, error) {
	return r.d.agents.CheckIn(ctx, p.Agent, x.ID, x.Request.Check)
}

func (r racers) Conflicts(ctx context.Context, workspace string) (c api.Conflicts, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTime)
	defer cancel()
	for _, w := range r.d.conflictWatches(workspace) {
		for c = w.Report(ctx); c.Pending && pause.For(ctx, 200*time.Millisecond); {
			c = w.Report(ctx)
		}
	}
	return c, nil
}

func (r racers) Cancel(ctx context.Context, p api.Racer) error {
	if p.Task == "" {
		return nil
	}
	if _, err := r.d.agents.CancelTask(ctx, p.Task); err != nil && api.CodeOf(err) != api.CodeBadState && api.CodeOf(err) != api.CodeAgentNotFound {
		return err
	}
	return nil
}

func (r racers) SaveAndRemove(ctx context.Context, x api.Race, name string) (string, error) {
	return r.d.agents.DropRacer(ctx, name, x.ID)
}

func (r racers) Keep(ctx context.Context, x api.Race, name string) error {
	return r.d.agents.KeepRacer(ctx, name, x.ID, x.MergeCommitSHA != "")
}

func (r racers) Merge(ctx context.Context, x api.Race, name string) (string, error) {
	return r.d.agents.MergeRacer(ctx, name, x.ID)
}

// Race starts a race from the commit that the target is at.
func (b *backend) Race(ctx context.Context, req api.RaceRequest) (api.Race, error) {
	ws, err := b.Workspace(req.Workspace)
	if err != nil {
		return api.Race{}, err
	}
	if err := ws.NeedsGit("a race needs branches"); err != nil {
		return api.Race{}, err
	}
	types, err := b.Types()
	if err != nil {
		return api.Race{}, err
	}
	for _, name := range req.Agents {
		if t, ok := types[name]; !ok || !t.Available {
			return api.Race{}, api.Errorf(api.CodeAgentTypeUnavailable, "base type %q is not available", api.Shorten(name, 64)).WithHint("polisctl agents types lists them")
		}
	}
	all := b.sorted(ws.Name)
	if len(all) == 0 {
		return api.Race{}, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	if err := ws.Repo.Sync(ctx); err != nil && api.CodeOf(err) != api.CodeRefConflict {
		return api.Race{}, err
	}
	base, err := all[0].git.Bare().Ref(ctx, git.Branch(ws.Target)) // names of workspaces are unique
	if err != nil {
		return api.Race{}, api.Errorf(api.CodeRepoCorrupt, "find the target branch: %w", err)
	}
	req.Workspace = ws.Name
	return b.races.Begin(ws.Name, base, req)
}

// Races lists races.
func (b *backend) Races(workspace string) ([]api.Race, error) {
	if workspace != "" {
		ws, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	return b.races.List(workspace), nil
}

func (b *backend) GetRace(ctx context.Context, id string, wait bool) (api.Race, error) {
	return b.races.Get(ctx, id, wait)
}

func (b *backend) CancelRace(id string) (api.Race, error) { return b.races.Cancel(id) }

func (b *backend) ChooseRace(id string, req api.ChooseRequest) (api.Race, error) {
	return b.races.Choose(id, req.Agent)
}
