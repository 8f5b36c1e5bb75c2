package daemon

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/agent/models"
	"polis/daemon/api"
	"polis/daemon/history/task"
	"polis/daemon/launch"
	"polis/daemon/store/layout"
)

// logDirs returns the directories with the log directories of the agents of a workspace; "": of all.
func (d *Daemon) logDirs(workspace string) (dirs []string) {
	for name, root := range d.roots() {
		if workspace == "" || workspace == name {
			dirs = append(dirs, filepath.Dir(root.Logs("agent")))
		}
	}
	return dirs
}

// Usage sums what agents used of model services.
func (b *backend) Usage(ctx context.Context, workspace, by, since string) ([]api.ModelUse, error) {
	dirs := b.logDirs(workspace)
	if workspace != "" && len(dirs) == 0 {
		return nil, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", api.Shorten(workspace, 64))
	}
	roles := map[string]string{}
	if by == "role" {
		for _, p := range b.agents.Everyone() {
			roles[p.Logs] = p.Role
		}
	}
	out, err := b.modelBook.Usage(dirs, by, since, roles)
	if by == "role" && err == nil {
		uses := b.shims.SharedUses(ctx)
		for i := range out {
			launch.AddSharedUse(&out[i], out[i].Key, uses)
		}
	}
	return out, err
}

// modelReporter reports what agents used of model services. Receipts have its events.
func (d *Daemon) modelReporter() *models.Reporter {
	return &models.Reporter{Book: &d.modelBook, Publish: func(e api.Event) { d.hub.Publish(e) }, Log: d.Log, Now: time.Now, Agents: func() []models.Place {
		roots := d.roots()
		var out []models.Place
		for name, ws := range d.agents.Homes() {
			if root, ok := roots[ws]; ok {
				out = append(out, models.Place{Agent: name, Workspace: ws, Dir: root.Logs(name)})
			}
		}
		return out
	}}
}

// tellEnded sends the agents whose task ends to a reporter, until ctx ends. One that cannot be sent is reported on in its
// next round.
func (d *Daemon) tellEnded(ctx context.Context, to chan<- string) {
	d.hub.Follow(ctx, func(e api.Event) {
		if e.Type != api.EventTask || e.Data["state"] != api.TaskEnded {
			return
		}
		select {
		case to <- e.Agent:
		default:
		}
	})
}

// List returns agents, with what they used of model services.
func (b *backend) List(ctx context.Context, workspace string) []api.Agent {
	all := b.Manager.List(ctx, workspace)
	roots, uses := b.roots(), b.shims.SharedUses(ctx)
	for i := range all {
		b.addModelUse(&all[i], roots, uses)
	}
	return all
}

// Get returns an agent, with what it used of model services.
func (b *backend) Get(ctx context.Context, name string) (api.Agent, error) {
	a, err := b.Manager.Get(ctx, name)
	if err == nil {
		b.addModelUse(&a, b.roots(), b.shims.SharedUses(ctx))
	}
	return a, err
}

// addModelUse adds what an agent used, if it used something or has a model service. Its budget is the one that is used most: its own,
// or the one that its role shares.
func (d *Daemon) addModelUse(a *api.Agent, roots map[string]layout.Workspace, uses []models.BudgetUse) {
	root, ok := roots[a.Workspace]
	if !ok {
		return // it was removed in between
	}
	present := ""
	if a.Task != nil && a.Task.State == api.TaskRunning {
		present = a.Task.ID
	}
	c := d.live()
	g := c.GatewayOf(a.Role)
	u, some, err := d.modelBook.Agent(root.Logs(a.Name), g.ModelBudget, present, time.Now())
	if err != nil {
		text := "what it used of model services is not known: " + err.Error()
		if hint := api.AsError(err).Hint; hint != "" {
			text += "; " + hint
		}
		a.Warnings = append(a.Warnings, text)
		return
	}
	if some || len(g.Models) > 0 {
		launch.AddSharedUse(&u, a.Role, uses)
		a.Models = &u
	}
}

// Tasks returns the tasks of an agent, with what they used of model services.
func (b *backend) Tasks(name string) ([]api.Task, error) {
	ts, err := b.Manager.Tasks(name)
	b.addTaskUse(ts)
	return ts, err
}

// AllTasks does so for the agents of a workspace.
func (b *backend) AllTasks(workspace string, limit int) ([]api.Task, error) {
	ts, err := b.Manager.AllTasks(workspace, limit)
	b.addTaskUse(ts)
	return ts, err
}

// Task does so for one task.
func (b *backend) Task(ctx context.Context, id string, wait bool) (api.Task, error) {
	t, err := b.Manager.Task(ctx, id, wait)
	if err == nil {
		t.Models = b.taskUse(t.ID)
		b.addCheck(&t)
	}
	return t, err
}

func (d *Daemon) addTaskUse(ts []api.Task) {
	books := map[string]map[string]api.ModelUse{}
	for i := range ts {
		t := &ts[i]
		book, ok := books[t.Agent]
		if !ok {
			book = d.tasksUse(t.Agent)
			books[t.Agent] = book
		}
		if u, ok := book[t.ID]; ok && t.ID != "" {
			t.Models = &u
		}
	}
}

// taskUse returns what a task used of model services, nil if it used nothing.
func (d *Daemon) taskUse(id string) *api.ModelUse {
	name, _, err := task.ParseID(id)
	if err != nil {
		return nil
	}
	if u, ok := d.tasksUse(name)[id]; ok {
		return &u
	}
	return nil
}

// tasksUse returns what the tasks of an agent used, also if it was removed: names of agents and their logs
// are unique.
func (d *Daemon) tasksUse(agent string) map[string]api.ModelUse {
	roots := d.roots()
	if ws, err := d.agents.WorkspaceOf(agent); err == nil {
		roots = map[string]layout.Workspace{ws: roots[ws]}
	}
	for _, root := range roots {
		dir := root.Logs(agent)
		if _, err := os.Lstat(dir); err != nil {
			if !os.IsNotExist(err) {
				d.Log.Warn("model counts of tasks not read", "agent", agent, "err", err)
			}
			continue
		}
		out, err := d.modelBook.Tasks(dir)
		if err != nil {
			d.Log.Warn("model counts of tasks not read", "agent", agent, "err", err)
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}
