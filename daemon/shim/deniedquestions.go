package shim

import (
	"cmp"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/view"
)

// denier is who denied a question, for people: a person's name, or where the rule is from. It is "" if nobody answered, or
// if it was not denied.
func denier(a api.Answer) string {
	if a.Verdict == api.VerdictApprove {
		return ""
	}
	return cmp.Or(a.Name, a.By)
}

// shortQuestion is what deniedQuestion shows of a question, without the memory of the rest.
func shortQuestion(q approval.Question) approval.Question {
	short := func(s string) string { return strings.Clone(api.Shorten(s, 400)) }
	return approval.Question{Kind: q.Kind, Tool: short(q.Tool), Text: short(q.Text), Call: q.Call, PID: q.PID, Program: q.Program}
}

// deniedQuestion records that a question was denied, by a rule or by a person, or that nobody answered: as a refusal of
// the agent (event, receipt, why, step, breaker), and in its counters. Those about paths are refusals of the view, and
// those of gates that refuse a call by themselves are recorded there.
func (s *Shim) deniedQuestion(q approval.Question, a api.Answer) {
	if a.Verdict == api.VerdictApprove || q.Kind == api.ApprovalRead || q.Kind == api.ApprovalWrite {
		return
	}
	s.kept.questionsDenied.Add(1)
	op, what := string(q.Kind), q.Text
	switch q.Kind {
	case api.ApprovalTool:
		what = strings.TrimSpace(q.Tool + " " + q.Text)
		s.deniedCall(q, a)
	case api.ApprovalMemory, api.ApprovalBudget:
	default:
		return
	}
	hint := "do without it, or ask for something else"
	if a.Reason != "" {
		hint = "the answer: " + a.Reason
	}
	s.denied(view.Denial{Time: time.Now(), Op: op, Path: api.Shorten(what, 400), Within: cmp.Or(q.Tool, op), Code: view.CodeNotApproved, Errno: "EACCES", Rule: cmp.Or(a.Rule, "the questions of "+op),
		Pid: uint32(max(q.PID, 0)), Program: q.Program, Hint: hint, By: denier(a), Reason: a.Reason})
}

// deniedCall lets the steps of the task know of a call that polis denied, before the program does: what the program then
// prints is no refusal by its own rules.
func (s *Shim) deniedCall(q approval.Question, a api.Answer) {
	m := s.stepping.Load()
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.steps == nil {
		return
	}
	text := ""
	if by := denier(a); by != "" { // else the refusal is a step without a name
		text = api.DeniedText(by, strings.TrimSpace(q.Tool+" "+q.Text), a.Reason)
	}
	m.steps.stream.Denied(q.Call, text, a.Reason)
}
