package agent

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Relative is an agent whose use of model services counts for a family: an agent and the workers that it
// and they made. It can be gone.
type Relative struct {
	Name string
	// Task is the present task of the family's first agent, or the last one, if it is that agent; "" while it runs a command
	// that is no task. InTask: it was made since the task began, so that all that it used is of the task.
	Task   string
	InTask bool
}

// budgetLeft refuses a worker whose family has used the budget of its role. Each worker has a budget of its
// own: an agent whose budget is spent would continue by its workers.
func (m *Manager) budgetLeft(ctx context.Context, p *Agent, root string) error {
	first, err := m.lookup(root)
	if err != nil {
		first = p // the first agent is gone
	}
	me, began := Relative{Name: root}, time.Time{}
	// A task that is over counts, too: its program can continue, and it can have left processes running.
	if st, _ := m.outputEnd(ctx, first); st == nil || !st.Running || st.Task != "" {
		if t := m.lastBegun(first); t.Began != nil {
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
