package daemon

import (
	"context"

	"polis/daemon/http/metrics"
)

// measured returns the present state of what the metrics show.
func (d *Daemon) measured(ctx context.Context) metrics.State {
	l := d.locks.Stats()
	s := metrics.State{Version: d.Version, Agents: d.agents.List(ctx, ""), Queued: map[string]int{}, Cases: d.cases.Digest(),
		Locks: metrics.Locks{Leases: l.Leases, Waiters: l.Waiters, Granted: l.Granted, Conflicts: l.Conflicts, Waits: l.Waits, Broken: l.Broken, Stale: l.Stale}}
	roots := d.roots()
	for i := range s.Agents {
		a := &s.Agents[i]
		d.addModelUse(a, roots, nil) // the gauge of agents is about their own budgets
		if a.Models == nil {
			continue
		}
		series, err := d.modelBook.Series(roots[a.Workspace].Logs(a.Name))
		if err != nil {
			d.Log.Warn("model counts not read", "agent", a.Name, "err", err)
		}
		for _, m := range series {
			s.Models = append(s.Models, metrics.ModelUse{Agent: a.Name, Workspace: a.Workspace, Service: m.Service, Model: m.Model, Counts: m.Counts, Cost: m.Cost})
		}
	}
	for _, u := range d.shims.SharedUses(ctx) {
		s.SharedBudgets = append(s.SharedBudgets, metrics.SharedBudget{Role: u.Role, Bound: u.Bound, Ratio: float64(u.Used) / float64(max(u.Limit, 1))})
	}
	for _, w := range d.gitWorkspaces("") {
		s.Queued[w.agents.Name] = len(w.queue.Entries())
	}
	return s
}

// openMetrics starts the server of the metrics, if it is configured. polisd continues if it fails.
func (d *Daemon) openMetrics(ctx context.Context) {
	if d.Config.Metrics.Listen == "" {
		return
	}
	at, err := metrics.ParseAddr(d.Config.Metrics.Listen)
	if err == nil {
		s := &metrics.Server{Addr: at, Metrics: d.metrics, Log: d.Log}
		if err = s.Open(ctx); err == nil {
			d.metricsPort = s
			d.Log.Info("metrics are served", "op", "metrics", "path", d.Config.Metrics.Listen)
			return
		}
	}
	d.mu.Lock()
	d.warnings = append(d.warnings, "metrics.listen = "+d.Config.Metrics.Listen+": "+err.Error()+"; the metrics are served at the admin socket only until polisd is restarted")
	d.mu.Unlock()
	d.Log.Error("metrics port not opened", "op", "metrics", "path", d.Config.Metrics.Listen, "err", err)
}

func (d *Daemon) closeMetrics() error {
	if d.metricsPort == nil {
		return nil
	}
	return d.metricsPort.Close()
}
