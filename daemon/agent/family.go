package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/rules/delegate"
	"polis/daemon/store"
)

// lent returns what the workers of an agent have of its limits, but one of them. m.mu is held.
func (m *Manager) lent(a, but *Agent) delegate.Budget {
	var sum delegate.Budget
	for _, w := range m.agents {
		if of := w.Kept.Worker; w != but && of != nil && of.Parent == a.Kept.Name && of.Session == a.Kept.Session {
			sum = sum.Plus(delegate.BudgetOf(w.Kept.MemoryLimitMB, m.cfgLive.Limits.Agent(w.Kept.Limits)))
		}
	}
	return sum
}

// workersOf returns the living workers of an agent, by name.
func (m *Manager) workersOf(a *Agent) []*Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []*Agent
	for _, w := range m.agents {
		if of := w.Kept.Worker; of != nil && of.Parent == a.Kept.Name && of.Session == a.Kept.Session && w.Kept.Removal == nil {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *Agent) int { return strings.Compare(a.Kept.Name, b.Kept.Name) })
	return out
}

// OwnLimits returns the limits of the agent's own sandbox: those that it has, less what its workers
// have of them.
func (a *Agent) OwnLimits(c config.Config) (memoryMB int, l api.Limits) {
	k, m := a.Copy(), a.WS.manager
	l = c.Limits.Agent(k.Limits)
	if m == nil { // its workspace is not added yet
		return k.MemoryLimitMB, l
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	own := delegate.BudgetOf(a.Kept.MemoryLimitMB, l).Own(m.lent(a, nil))
	return own.MemoryMB, own.Over(l)
}

// takesTooMuch refuses limits of a worker for which its parent has not enough left. m.mu is held.
func (m *Manager) takesTooMuch(w *Agent, k store.Agent) error {
	p := m.parent(w)
	if p == nil {
		return nil
	}
	c := m.cfgLive
	has := delegate.BudgetOf(p.Kept.MemoryLimitMB, c.Limits.Agent(p.Kept.Limits))
	lent := m.lent(p, w)
	if short, ok := has.Covers(lent.Plus(delegate.BudgetOf(k.MemoryLimitMB, c.Limits.Agent(k.Limits)))); !ok {
		return notLeft(short, p.Kept.Name)
	}
	return nil
}

func notLeft(limit, parent string) error {
	return api.Errorf(api.CodeQuota, "%s: agent %s has not so much left for a worker, beside itself and its other workers", limit, parent).
		WithHint("polisctl workers cleanup returns what ended workers had; ask for less, or polisctl agents set %s gives the agent more", parent)
}

// lend lowers the limits of the agent that delegates by what its new worker has. The worker's op is
// held.
func (m *Manager) lend(ctx context.Context, w *Agent) error {
	p := m.Parent(w)
	if p == nil {
		return nil
	}
	return m.applyOwn(ctx, p, false)
}

// applyOwn applies an agent's present settings as soon as no other operation runs.
func (m *Manager) applyOwn(ctx context.Context, a *Agent, force bool) error {
	if err := a.op.Acquire(ctx); err != nil {
		return api.Errorf(api.CodeTimeout, "agent %s is busy with another operation: %w", a.Name(), err).WithHint("try again in a moment")
	}
	defer a.op.Unlock()
	return m.applySettings(ctx, a, force)
}

// kept returns the settings that a worker keeps beside its parent's present rights. lent is what all
// workers of the parent have.
func (m *Manager) kept(c config.Config, p, w *Agent, lent delegate.Budget) (store.Agent, error) {
	pk, k := p.Copy(), w.Copy()
	k.Role = pk.Role
	has, err := rights(c, p, pk)
	if err != nil {
		return k, err
	}
	own, err := rights(c, w, k)
	if err != nil {
		return k, err
	}
	got := delegate.Keep(has, own)
	budget := delegate.BudgetOf(got.MemoryMB, got.Limits).Shrink(lent, delegate.BudgetOf(has.MemoryMB, has.Limits), c.Delegate.Workers)
	got.Limits = budget.Over(got.Limits)
	k.MemoryLimitMB = budget.MemoryMB
	if !samePaths(k.Policy, got.Policy) {
		k.Policy = got.Policy
	}
	for _, f := range []struct {
		to       *int
		was, now int
	}{{&k.Limits.Pids, own.Limits.Pids, got.Limits.Pids}, {&k.Limits.CPUPercent, own.Limits.CPUPercent, got.Limits.CPUPercent}, {&k.Limits.CPUWeight, own.Limits.CPUWeight, got.Limits.CPUWeight},
		{&k.Limits.IOWeight, own.Limits.IOWeight, got.Limits.IOWeight}, {&k.Limits.DiskMB, own.Limits.DiskMB, got.Limits.DiskMB},
		{&k.Limits.DiskFiles, own.Limits.DiskFiles, got.Limits.DiskFiles}, {&k.Limits.Connections, own.Limits.Connections, got.Limits.Connections}} {
		if f.was != f.now {
			*f.to = f.now
		}
	}
	if !slices.Equal(own.Egress, got.Egress) {
		k.Egress = got.Egress
	}
	if !slices.Equal(own.HostPorts, got.HostPorts) {
		k.HostPorts = got.HostPorts
	}
	return k, nil
}

// samePaths reports whether two policies have the same rules.
func samePaths(a, b api.Policy) bool {
	return sameReading(a, b) && slices.Equal(a.Exclusive, b.Exclusive) && a.Temp == b.Temp
}

// shrinkable refuses limits of an agent that are too little for itself and its workers.
func (m *Manager) shrinkable(c config.Config, a *Agent, now store.Agent) error {
	total := delegate.BudgetOf(now.MemoryLimitMB, c.Limits.Agent(now.Limits))
	var each []delegate.Budget
	var lent, after delegate.Budget
	for _, w := range m.workersOf(a) {
		k := w.Copy()
		l := delegate.Keep(delegate.Rights{MemoryMB: total.MemoryMB, Limits: total.Over(api.Limits{})}, delegate.Rights{MemoryMB: k.MemoryLimitMB, Limits: c.Limits.Agent(k.Limits)})
		b := delegate.BudgetOf(l.MemoryMB, l.Limits)
		each, lent = append(each, b), lent.Plus(b)
	}
	for _, b := range each {
		after = after.Plus(b.Shrink(lent, total, c.Delegate.Workers))
	}
	if short, ok := total.Covers(after); !ok {
		return api.Errorf(api.CodeBadRequest, "%s: too little for agent %s and its %s", short, a.Name(), api.Count(len(each), "worker")).
			WithHint("polisctl workers cancel and polisctl workers cleanup end workers; or choose a higher limit")
	}
	return nil
}

// narrowWorkers applies the present rights of an agent to its workers, and to theirs. The agent's op
// is not held.
func (m *Manager) narrowWorkers(ctx context.Context, p *Agent, force bool) error {
	workers := m.workersOf(p)
	if len(workers) == 0 {
		return nil
	}
	c := m.config()
	pk := p.Copy()
	total := c.Limits.Agent(pk.Limits)
	var lent delegate.Budget
	for _, w := range workers {
		k := w.Copy()
		l := delegate.Keep(delegate.Rights{MemoryMB: pk.MemoryLimitMB, Limits: total}, delegate.Rights{MemoryMB: k.MemoryLimitMB, Limits: c.Limits.Agent(k.Limits)})
		lent = lent.Plus(delegate.BudgetOf(l.MemoryMB, l.Limits))
	}
	var errs []error
	changed := false
	for _, w := range workers {
		did, err := m.narrowWorker(ctx, c, p, w, lent, force)
		changed = changed || did
		if err != nil && api.CodeOf(err) != api.CodeAgentNotFound {
			errs = append(errs, api.Errorf(api.CodeOf(err), "worker %s has rights that agent %s has no more: %w", w.Name(), p.Name(), err))
			continue
		}
		errs = append(errs, m.narrowWorkers(ctx, w, force))
	}
	if changed {
		errs = append(errs, m.applyOwn(ctx, p, force))
	}
	return errors.Join(errs...)
}

func (m *Manager) narrowWorker(ctx context.Context, c config.Config, p, w *Agent, lent delegate.Budget, force bool) (changed bool, err error) {
	if _, err := m.find(ctx, w.Name()); err != nil {
		return false, err
	}
	defer w.op.Unlock()
	old := w.Copy()
	now, err := m.kept(c, p, w, lent)
	if err != nil {
		return false, err
	}
	words := differences(c, old, now)
	if len(words) == 0 {
		return false, nil
	}
	if err := m.enact(ctx, w, old, now, force); err != nil {
		return false, err
	}
	m.Log.Info("worker was narrowed as its parent was", "agent", w.Name(), "what", strings.Join(words, ", "))
	m.Events.Publish(api.Event{Type: api.EventAgentSettings, Agent: w.Name(), Message: "agent " + w.Name() + ", as its parent " + p.Name() + ": " + strings.Join(words, ", "), Data: with(w.recordChange(words), map[string]any{"parent": p.Name()})})
	return true, nil
}
