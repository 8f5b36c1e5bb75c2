package daemon

import (
	"context"
	"slices"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/patrol"
)

// settle resolves the cases that the facts of a cycle have ended.
func (p *patroller) settle(began time.Time, found []api.PatrolFinding, views []patrol.View) {
	for _, e := range patrol.EndedCases(p.d.cases.List("", false), began, found, views) {
		p.d.settleCases(func(o api.Case) bool { return o.ID == e.ID }, e.How)
	}
}

// froze opens the case of an agent that a breaker froze; with nil it was thawed.
func (d *Daemon) froze(a *agent.Agent, f *api.Frozen) {
	name, created := a.Name(), a.Copy().CreatedAt
	if f == nil {
		d.settleCases(func(c api.Case) bool { return c.Kind == patrol.KindBreaker && c.OfAgent(a.WS.Name, name, created) }, "it was thawed")
		return
	}
	d.openCase(d.withRewind(patrol.BreakerCase(a.WS.Name, name, created, *f, agent.FrozenText(*f)), f))
}

// askLost opens the case of a task that was lost at a restart.
func (d *Daemon) askLost(a *agent.Agent, t api.Task) error {
	_, _, err := d.cases.Open(d.withRewind(patrol.TaskCase(a.WS.Name, a.Copy().CreatedAt, t), nil))
	return err
}

// lostDecided resolves the case of a lost task.
func (d *Daemon) lostDecided(a *agent.Agent, task, how string) {
	name, created := a.Name(), a.Copy().CreatedAt
	d.settleCases(func(c api.Case) bool {
		return c.Kind == patrol.KindTask && c.Task == task && c.OfAgent(a.WS.Name, name, created)
	}, how)
}

// withRewind adds the last checkpoint from before what a case is about, if there is one. f is the freeze of
// a breaker, or nil.
func (d *Daemon) withRewind(c api.Case, f *api.Frozen) api.Case {
	for _, w := range d.gitWorkspaces(c.Workspace) {
		all, err := w.timeline.List(context.Background(), c.Agent)
		if err != nil {
			d.Log.Warn("checkpoints not read for a case of the patrol", "agent", c.Agent, "err", err)
			return c
		}
		for _, s := range slices.Backward(all) {
			if patrol.BeforeCase(c, f, s) {
				return patrol.WithRewind(c, s)
			}
		}
	}
	return c
}
