package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/patrol"
	"polis/internal/failpoint"
)

// do carries out the action of a finding.
func (p *patroller) do(ctx context.Context, s patrol.Suspect, f *api.PatrolFinding, rules config.PatrolRules) error {
	same := func(v agent.Living) bool { p.d.measureLiving(&v, nil); return s.Same(v.Observed) }
	m := p.d.agents
	failpoint.Hit("patrol:decided")
	switch f.Action {
	case "reconcile":
		return m.Reconcile(ctx, f.Agent, s.Created, f.Generation)
	case "end-program":
		return m.EndProgram(ctx, f.Agent, same)
	case api.OnStallNudge:
		return m.SendSame(ctx, f.Agent, api.SendRequest{Text: rules.Nudge}, same)
	case api.OnStallStop:
		return m.StopSame(ctx, f.Agent, same)
	case api.OnStallRestart:
		return p.restart(ctx, s, f, same)
	}
	return nil
}

// restart stops a stalled agent and gives it what it did again: its task, or its program.
func (p *patroller) restart(ctx context.Context, s patrol.Suspect, f *api.PatrolFinding, same func(agent.Living) bool) error {
	if err := p.restarts.Take(f.Agent, s.Created, time.Now()); err != nil {
		return err
	}
	m := p.d.agents
	if err := m.StopSame(ctx, f.Agent, same); err != nil {
		return err
	}
	failpoint.Hit("patrol:stopped")
	// Another agent may have got the name since, and this one may have been started.
	var err error
	if s.Task != "" && s.Ended == "" {
		err = m.RetryTaskSame(ctx, s.Task, s.Created, f.Generation)
	} else {
		err = m.StartSame(ctx, f.Agent, s.Created, f.Generation)
	}
	if err != nil {
		return api.Errorf(api.CodeOf(err), "it was stopped, and not started again: %w", err)
	}
	return nil
}
