package shim

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/gateway/budget"
	"polis/daemon/rules/approval"
)

// freezeAgain is how often a freeze is tried while another one, which ends by itself, lasts.
const freezeAgain = 100 * time.Millisecond

// askBudget freezes the agent while a person decides whether its model budget is raised: to what the question says, or by
// what the answer does. It returns the new bound, or 0. The agent is thawed in any case.
func (s *Shim) askBudget(ctx context.Context, st budget.State, to float64) (raised float64, err error) {
	q := approval.Question{Kind: api.ApprovalBudget, Text: fmt.Sprintf("raise %s to %s", st.Name(), budget.Figure(to)), Note: "the agent is frozen: " + st.Text + " are used"}
	q.Raise = &approval.Raise{Least: st.LeastRaise(), Whole: st.Tokens(), Unit: "units of the currency"}
	if st.Tokens() {
		q.Raise.Unit = "tokens"
	}
	if s.toolRules.Load().Decide(q).Verdict == api.VerdictAsk && s.freezeForBudget(ctx, "its model budget is spent: "+st.Text) {
		defer func() {
			// A person can have thawed it, or a breaker have frozen it.
			if terr := s.thaw(api.FrozenByBudget); terr != nil && api.CodeOf(terr) != api.CodeBadState {
				s.Log.Error("agent not thawed", "err", terr)
			}
		}()
	}
	_, a, err := s.ask(ctx, q, usualAnswerWait)
	switch {
	case err != nil || a.Verdict != api.VerdictApprove:
		return 0, err
	case a.Raise > 0:
		return st.Limit + a.Raise, nil
	}
	return to, nil
}

// freezeForBudget freezes the agent; false if another freeze that a person ends lasts, or it cannot be
// frozen: then its requests wait nevertheless.
func (s *Shim) freezeForBudget(ctx context.Context, reason string) bool {
	for {
		want := api.Frozen{By: api.FrozenByBudget, At: time.Now().UTC(), Reason: reason}
		err := s.freeze(ctx, want, 0)
		if err == nil {
			s.Log.Info("agent frozen: its model budget is spent", "text", reason)
			s.events.Publish(api.Event{Type: api.EventFrozen, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s was frozen: %s", s.Spec.Agent, reason), Data: map[string]any{"frozen": want}})
			return true
		}
		f := s.freezer.state()
		if f != nil && f.Until == nil {
			return false
		}
		if f == nil && api.CodeOf(err) != api.CodeBadState {
			s.Log.Warn("agent not frozen; its requests to models wait", "err", err)
			return false
		}
		select {
		case <-time.After(freezeAgain): // the patrol's ends by itself
		case <-ctx.Done():
			return false
		case <-s.stopping:
			return false
		}
	}
}

// stopForBudget has polisd end the task, or the agent, whose model budget is spent.
func (s *Shim) stopForBudget(st budget.State) {
	s.events.Publish(api.Event{Type: wire.EventModelStop, Agent: s.Spec.Agent, Message: "the model budget is spent: " + st.Text,
		Data: map[string]any{"task": st.Task, "generation": s.Spec.Generation, "bound": st.Bound, "text": st.Text}})
}

// shareWanted has polisd grant the agent its next part of the budget that its role shares.
func (s *Shim) shareWanted() {
	s.events.Publish(api.Event{Type: wire.EventModelShare, Agent: s.Spec.Agent, Message: "the agent needs its next part of the budget of its role"})
}

// shareRaised has polisd raise the budget of the role, as a person decided.
func (s *Shim) shareRaised(st budget.State, to float64) {
	s.events.Publish(api.Event{Type: wire.EventModelRaise, Agent: s.Spec.Agent, Message: fmt.Sprintf("%s was raised to %s", st.Name(), budget.Figure(to)),
		Data: map[string]any{"role": st.Role, "bound": st.Bound, "day": st.Of, "to": to}})
}
