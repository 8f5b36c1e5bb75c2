package agent

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Relative is an agent whose use of model services counts for a family: an agent and the workers that it
// and they made. It can be gone.
type Relative struct {
	Name string
	// Task is the present task of the family's first agent, if it is that agent. InTask: it was made since
	// the task began, so that all that it used is of the task.
	Task   string
	InTask bool
}

// budgetLeft refuses a worker whose family has used the budget of its role. Each worker has a budget of its
// own: an agent whose budget is spent would continue by its workers.
func (m *Manager) budgetLeft(p *Agent, root string) error {
	first, err := m.lookup(root)
	if err != nil {
		first = p // the first agent is gone
	}
	me, began := Relative{Name: root}, time.Time{}
	if last := m.lastTask(first); last != nil && last.State == api.TaskRunning {
		if t, err := m.records(first).Get(last.ID); err == nil && t.Began != nil {
			me.Task, began = t.ID, *t.Began
		}
	}
	family := []Relative{me}
	member := func(k store.Agent) {
		if k.Worker != nil && k.Worker.Root == root && k.Name != root {
			family = append(family, Relative{Name: k.Name, InTask: me.Task != "" && !k.CreatedAt.Before(began)})
		}
	}
	m.mu.Lock()
	for _, o := range m.agents {
		if o.WS == p.WS {
			member(o.Kept)
		}
	}
	for _, r := range p.WS.Removed {
		member(r.Agent)
	}
	m.mu.Unlock()
	if text := m.Shims.ModelsSpent(p, family); text != "" {
		return api.Errorf(api.CodeQuota, "the model budget of agent %s and its workers is spent: %s", root, text).
			WithHint("a person can raise the budget in [gateway] of polisd.toml, or do the task yourself")
	}
	return nil
}
