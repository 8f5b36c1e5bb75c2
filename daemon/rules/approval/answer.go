package approval

import (
	"slices"

	"polis/daemon/api"
)

// Answer answers a question for all its callers; the first answer counts.
func (q *Queue) Answer(id string, a api.Answer) (Change, error) {
	if err := checkAnswer(a); err != nil {
		return Change{}, err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.byID[id]
	switch {
	case !ok:
		return Change{}, api.Errorf(api.CodeNotFound, "there is no question %q of agent %s", api.Shorten(id, 64), q.Agent).WithHint("polisctl approvals list")
	case it.gone:
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeNotFound, "question %s is withdrawn: what asked does not wait any more", id).WithHint("polisctl approvals list")
	case it.answer != nil:
		b := *it.answer
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeAlreadyAnswered, "question %s was answered by %s: %s", id, b.By, b.Verdict).
			With("verdict", b.Verdict).With("by", b.By).With("at", b.At).With("scope", b.Scope).WithHint("the first answer counts")
	}
	if a.Scope == "" {
		a.Scope = api.ScopeOnce
	}
	if err := it.q.checkRaise(a); err != nil {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeOf(err), "question %s: %w", id, err)
	}
	if err := it.q.rememberable(); err != nil && a.Scope != api.ScopeOnce {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "question %s: %w", id, err).WithHint("answer it once")
	}
	if a.Scope == api.ScopeRole && a.Role == "" {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "agent %s has no role that the answer could be for", q.Agent).WithHint("answer once, or for the agent")
	}
	if a.Scope == api.ScopeTask && it.q.Task == "" {
		return Change{Approval: q.view(it)}, api.Errorf(api.CodeBadRequest, "agent %s works on no task that the answer could be for", q.Agent).WithHint("answer once, or for the agent")
	}
	a.At = q.now()
	it.answer = &a
	q.close(it)
	c := Change{Approval: q.view(it)}
	if a.Scope != api.ScopeOnce && a.Verdict != api.VerdictAbort {
		c.Rule = &api.ApprovalRule{ID: id, Workspace: q.Workspace, Verdict: a.Verdict, Kind: it.q.Kind, Tool: it.q.Tool, What: it.q.Text, By: a.By, At: a.At, Reason: a.Reason,
			Text: RuleText(it.q.Kind, it.q.Tool, it.q.Text)}
		if a.Scope == api.ScopeRole {
			c.Rule.Role = a.Role
		} else {
			c.Rule.Agent = q.Agent
		}
		if a.Scope == api.ScopeTask {
			q.rememberForTask(it.q.Task, *c.Rule)
			c.Rule = nil
		}
	}
	close(it.done)
	q.publish(c)
	return c, nil
}

func checkAnswer(a api.Answer) error {
	switch {
	case a.Verdict != api.VerdictApprove && a.Verdict != api.VerdictDeny && a.Verdict != api.VerdictAbort:
		return api.Errorf(api.CodeBadRequest, "verdict = %q: must be %q, %q or %q", api.Shorten(string(a.Verdict), 32), api.VerdictApprove, api.VerdictDeny, api.VerdictAbort)
	case a.Scope != "" && !slices.Contains([]api.AnswerScope{api.ScopeOnce, api.ScopeTask, api.ScopeAgent, api.ScopeRole}, a.Scope):
		return api.Errorf(api.CodeBadRequest, "scope = %q: must be once, task, agent or role", api.Shorten(string(a.Scope), 32))
	case a.Verdict == api.VerdictAbort && a.Scope != "" && a.Scope != api.ScopeOnce:
		return api.Errorf(api.CodeBadRequest, "abort is not remembered: scope = %q", a.Scope)
	case len(a.Reason) > api.MaxAnswerReason:
		return api.Errorf(api.CodeBadRequest, "reason has %d bytes: at most %d", len(a.Reason), api.MaxAnswerReason)
	}
	return nil
}
