package shim

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/approval"
	"polis/daemon/shim/leftover"
)

// coverOf prepares the cover of a tool's question, while the process that asks certainly lives. It is nil if there can be
// none. Whatever the answer to the new question is, earlier ones to questions about its files hold no more.
func (s *Shim) coverOf(q approval.Question) *cover {
	command := s.covers.command()
	paths := coverable(q)
	s.covers.over(q.Paths)
	if len(paths) == 0 {
		return nil
	}
	line, ok := s.pathAsker.lineOf(q.PID)
	if !ok {
		return nil
	}
	asked := shortQuestion(q)
	asked.Name, asked.Class, asked.Text, asked.Paths, asked.Call = q.Name, q.Class, strings.Clone(q.Text), paths, ""
	c := &cover{asked: asked, line: line}
	s.covers.add(c, command)
	return c
}

// approvedCall lets the answer to the question of a cover hold for the system calls of its call. The answer of a rule, which
// no person has given to this call, does not, and neither does one to an equal question of another process: the person saw
// the process that asked first. a is the zero value if there is no answer.
func (s *Shim) approvedCall(c *cover, id string, a api.Answer) {
	if c == nil {
		return
	}
	v, err := s.approvals.Get(id)
	since, clock := leftover.Now()
	switch {
	case a.Verdict == api.VerdictDeny || a.Verdict == api.VerdictAbort:
		s.covers.over(c.asked.Paths) // also those of calls that were approved meanwhile
	case a.Verdict != api.VerdictApprove || id == "" || err != nil || v.Answer == nil || v.PID != c.asked.PID:
		s.covers.drop(c)
	case clock != nil:
		s.Log.Warn("system calls of an approved call not covered", "err", clock)
		s.covers.drop(c)
	default:
		s.covers.open(c, func() {
			c.id, c.answer, c.asked.Task, c.since, c.until = id, a, v.Task, since, time.Now().Add(coverTime)
		})
	}
}

// covered reports whether the answer to the question of a tool's call holds for a path that the process uses. What a rule or
// a remembered answer says of the path, or now of the call, comes first.
func (p *pathAsker) covered(kind api.ApprovalKind, path string, pid int) bool {
	s := p.s
	all, lines := s.covers.of(kind, path, time.Now())
	for i, c := range all {
		line, ok := p.under(pid, lines[i], c.since)
		if !ok {
			continue
		}
		if _, decided := s.approvals.Decided(approval.Question{Kind: kind, Text: path, Task: c.asked.Task}); decided {
			return false
		}
		if a, decided := s.approvals.Decided(c.asked); decided && a.Verdict != api.VerdictApprove {
			s.covers.over(c.asked.Paths)
			return false
		}
		holds, first := s.covers.use(c, line, kind, path)
		if holds && first {
			s.recordCovered(c, kind, path, pid)
		}
		if holds {
			return true
		}
	}
	return false
}

// recordCovered records that the answer to one question was that of another, once for each path of a call. A covered write
// is an approved one for the merge.
func (s *Shim) recordCovered(c *cover, kind api.ApprovalKind, path string, pid int) {
	text := fmt.Sprintf("%s %s: by the answer of %s to question %s", kind, api.PrintPath(path), cmp.Or(c.answer.Name, c.answer.By), c.id)
	s.events.Publish(api.Event{Type: api.EventApprovalCovered, Agent: s.Spec.Agent, Message: fmt.Sprintf("agent %s: %s", s.Spec.Agent, text),
		Data: map[string]any{"id": c.id, "kind": kind, "path": api.EncodePath(path), "op": kind, "tool": approval.Escape(c.asked.Tool), "by": c.answer.By, "pid": pid}})
	if kind == api.ApprovalWrite {
		a := c.answer
		a.Scope = api.ScopeOnce
		v := api.Approval{ID: c.id, Agent: s.Spec.Agent, Workspace: s.Spec.Workspace, Task: c.asked.Task, Kind: kind, What: path, Answer: &a}
		s.events.Publish(api.Event{Type: wire.EventAnswered, Agent: s.Spec.Agent, Data: map[string]any{"answered": wire.Answered{Approval: v}}})
	}
	s.noteStep(api.StepApproved, func() string { return text })
}

// insideToolDone is tool_done: a call of a tool has ended, and with it what its approval covers. Nobody gains by it.
func (s *Shim) insideToolDone(w http.ResponseWriter, r *http.Request) error {
	var req api.ToolDone
	if err := readJSON(r, &req); err != nil {
		return err
	}
	if req.Type != "" && req.Type != "tool_done" {
		return wrongType(req.Type, "tool_done")
	}
	q, err := s.toolNames.Question(req.Tool, req.Input, s.toolRoots())
	if err != nil {
		return err
	}
	s.covers.over(q.Paths)
	return writeJSON(w, api.ToolEnded{Type: "tool_done", RequestID: api.Shorten(req.RequestID, maxRequestID)})
}
