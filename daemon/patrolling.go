package daemon

import (
	"cmp"
	"context"
	"sync"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/patrol"
	"polis/daemon/patrol/cleanup"
)

const (
	// patrolOff is how often the configuration is read while the patrol is off.
	patrolOff = 10 * time.Second
	// patrolTime bounds a cycle, without what is done about its findings.
	patrolTime = time.Minute
)

// patroller observes the agents, has package patrol judge, and acts. One cycle at a time.
type patroller struct {
	d    *Daemon
	turn chan struct{}

	p        *patrol.Patrol // guarded by turn, like the next two
	reported patrol.Reported
	restarts patrol.Restarts
	// living is what was observed last, by agent, and waited what suspects waited for.
	living map[string]agent.Living
	waited patrol.Waited
	// rounds decides about the ephemeral agents whose work has ended.
	rounds cleanup.Rounds
	// wake has a value if the work of an ephemeral agent may have ended.
	wake chan struct{}

	mu   sync.Mutex
	last api.PatrolReport
}

func newPatroller(d *Daemon) *patroller {
	return &patroller{d: d, turn: make(chan struct{}, 1), p: patrol.New(), wake: make(chan struct{}, 1),
		rounds: cleanup.Rounds{Tips: d.tipsOf, Decided: d.cleanupDecided, Now: time.Now},
		last:   api.PatrolReport{Agents: []api.PatrolAgent{}, Findings: []api.PatrolFinding{}, Cleanups: []api.Cleanup{}}}
}

// run does a cycle in every interval until ctx ends.
func (p *patroller) run(ctx context.Context) {
	last := time.Now()
	p.d.reworkDue(ctx) // what an earlier polisd began
	for {
		every := time.Duration(p.d.live().Patrol.Interval)
		t := time.NewTimer(time.Until(last.Add(cmp.Or(every, patrolOff))))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-p.wake:
			t.Stop()
			p.d.reworkDue(ctx)
			if every != 0 {
				p.runCleanups(ctx)
			}
			continue
		case <-t.C:
		}
		last = time.Now()
		p.d.reworkDue(ctx)
		if every == 0 {
			continue
		}
		if _, err := p.cycle(ctx, false, false); err != nil && ctx.Err() == nil {
			p.d.Log.Warn("patrol cycle not completed", "err", err)
		}
	}
}

// trigger makes the patrol decide now about the agents whose work has ended.
func (p *patroller) trigger() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// runCleanups decides about the agents whose work has ended, between two cycles.
func (p *patroller) runCleanups(ctx context.Context) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return
	}
	cleanups := p.cleanUp(ctx, false, false)
	p.mu.Lock()
	p.last.Cleanups = cleanups
	p.mu.Unlock()
}

// cycle checks every agent and acts on what it finds, unless it is a dry run. If a person asked for
// it every shim is queried.
func (p *patroller) cycle(ctx context.Context, asked, dryRun bool) (api.PatrolReport, error) {
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return api.PatrolReport{}, api.Errorf(api.CodeTimeout, "wait for the cycle of the patrol that runs: %w", context.Cause(ctx))
	}
	start := time.Now()
	rep := api.PatrolReport{At: start.UTC(), DryRun: dryRun, Agents: []api.PatrolAgent{}, Findings: []api.PatrolFinding{}, Cleanups: []api.Cleanup{}}
	octx, cancel := context.WithTimeout(ctx, patrolTime)
	defer cancel()
	c := p.d.live()
	var known map[string]agent.Living
	if !asked {
		known = p.known()
	}
	all := p.d.agents.Observe(octx, known)
	if octx.Err() != nil {
		return rep, api.Errorf(api.CodeTimeout, "observe the agents: %w", context.Cause(octx))
	}
	living, obs := map[string]agent.Living{}, make([]patrol.Observed, 0, len(all))
	for _, v := range all {
		var last *agent.Living
		if l, ok := p.living[v.Agent]; ok {
			last = &l
		}
		p.d.measureLiving(&v, last)
		living[v.Agent] = v
		obs = append(obs, v.Observed)
	}
	lim := patrolLimits(c)
	suspects, views := p.p.Look(time.Now(), obs, lim)
	p.living = living
	waits := map[string]patrol.Waits{}
	leases := p.d.leaseWaiters()
	for _, s := range suspects {
		w, ok := p.waitsOf(octx, &s, leases, asked, lim)
		if !ok {
			continue
		}
		waits[s.Agent] = w
		rules := c.PatrolRules(living[s.Agent].Role)
		if f, ok := patrol.Finding(time.Now(), s, w, lim, rules.OnStall); ok {
			p.act(ctx, s, &f, rules, dryRun)
			rep.Findings = append(rep.Findings, f)
		}
	}
	for _, v := range views {
		if v.Status == api.StatusStopped {
			continue
		}
		w, ok := waits[v.Agent]
		if !ok {
			w = patrol.ReportedWaits(living[v.Agent].Waiting)
		}
		a := patrol.Agent(v, w)
		if v.Status == api.StatusError {
			a.Reason = living[v.Agent].Reason
		}
		rep.Agents = append(rep.Agents, a)
	}
	rep.Cleanups = p.cleanUp(ctx, asked, dryRun)
	p.waited.Forget(suspects)
	p.reported.Forget(rep.Findings, views)
	p.restarts.Forget(func(name string) bool { _, ok := living[name]; return ok })
	if !dryRun {
		p.settle(start, rep.Findings, views)
	}
	rep.Cases = p.d.cases.Digest()
	took := time.Since(start)
	rep.Millis = took.Milliseconds()
	p.d.metrics.Cycle(took)
	p.mu.Lock()
	p.last = rep
	p.mu.Unlock()
	return rep, nil
}

// known returns what was observed last, and whether anything of each agent has run since.
func (p *patroller) known() map[string]agent.Living {
	out := make(map[string]agent.Living, len(p.living))
	for name, v := range p.living {
		v.Stood = p.d.stands(v)
		out[name] = v
	}
	return out
}

// waitsOf returns what a suspect waits for; ok is false if it is none any more.
func (p *patroller) waitsOf(ctx context.Context, s *patrol.Suspect, leases map[string]string, asked bool, lim patrol.Limits) (w patrol.Waits, ok bool) {
	if path, waits := leases[s.Agent]; waits && s.Program {
		return patrol.LeaseWaits(path), true
	}
	if !asked {
		if w, ok := p.waited.Known(time.Now(), *s, p.living[s.Agent].Stood); ok {
			return w, true
		}
		if !p.confirmed(ctx, s, lim) {
			return w, false
		}
	}
	w = p.d.waitsOf(p.living[s.Agent])
	p.waited.Note(time.Now(), *s, w)
	return w, true
}

// confirmed queries a suspect's shim again: what the patrol knew of it may be a minute old. A
// suspect that has changed since is judged in the next cycle.
func (p *patroller) confirmed(ctx context.Context, s *patrol.Suspect, lim patrol.Limits) bool {
	v, err := p.d.agents.ObserveAgent(ctx, s.Agent)
	if err != nil {
		return false
	}
	p.d.measureLiving(&v, nil)
	p.living[s.Agent] = v
	now, ok := p.p.Confirm(time.Now(), *s, v.Observed, lim)
	*s = now
	return ok
}

// act does what a finding asks for, once, and publishes it, once.
func (p *patroller) act(ctx context.Context, s patrol.Suspect, f *api.PatrolFinding, rules config.PatrolRules, dryRun bool) {
	act, news := p.reported.Begin(patrol.Incident(s.Observed), f, dryRun)
	if !act {
		return
	}
	patrol.Conclude(f, p.do(ctx, s, f, rules))
	if !news {
		return
	}
	if c, open := patrol.Case(s, *f); open {
		p.d.openCase(p.d.withRewind(c, nil))
	}
	p.d.Log.Warn("patrol found an agent", "agent", f.Agent, "class", f.Class, "action", f.Action, "done", f.Done, "reason", f.Skipped)
	p.d.hub.Publish(patrol.Event(*f))
}

// Patrol does a cycle for a person.
func (b *backend) Patrol(ctx context.Context, req api.PatrolRequest) (api.PatrolReport, error) {
	return b.patrol.cycle(ctx, true, req.DryRun)
}

// LastPatrol is the last cycle; the zero time if there was none.
func (b *backend) LastPatrol() api.PatrolReport {
	b.patrol.mu.Lock()
	defer b.patrol.mu.Unlock()
	return b.patrol.last
}
