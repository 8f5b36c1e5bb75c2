package daemon

import (
	"context"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/patrol"
)

// do carries out the action of a finding.
func (p *patroller) do(ctx context.Context, s patrol.Suspect, f *api.PatrolFinding, rules config.PatrolRules) error {
	same := func(v agent.Living) bool { p.d.measureLiving(&v, nil); return s.Same(v.Observed) }
	m := p.d.agents
	switch f.Action {
	case "reconcile":
		return m.Reconcile(ctx, f.Agent, s.Created, f.Generation)
	case "end-program":
		return m.EndProgram(ctx, f.Agent, same)
	case api.OnStallNudge:
		v, err := m.ObserveAgent(ctx, f.Agent)
		if err != nil || !same(v) {
			return api.Errorf(api.CodeBadState, "agent %s is not what it was", f.Agent)
		}
		_, err = m.Send(ctx, f.Agent, api.SendRequest{Text: rules.Nudge})
		return err
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
	if s.Task != "" && s.Ended == "" {
		_, err := m.RetryTask(ctx, s.Task)
		return err
	}
	_, err := m.Start(ctx, f.Agent, false)
	return err
}
