package shim

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/host/peer"
	"polis/daemon/rules/approval"
	"polis/daemon/rules/steps"
)

// Bounds of the wait for an answer.
const (
	usualAnswerWait = time.Hour
	maxAnswerWait   = 7 * 24 * time.Hour
)

// openApprovals makes the queue of the agent's questions. It is the shim's, so that a restart or
// a crash of polisd loses no question and no answer.
func (s *Shim) openApprovals() error {
	names, err := approval.ReadNames(s.Spec.ToolNames)
	if err != nil {
		return err
	}
	s.toolNames = names
	rules, err := s.compileTools(s.Spec.Settings)
	if err != nil {
		return err
	}
	s.toolRules.Store(rules)
	s.pathAsker = &pathAsker{s: s, origin: s.origin, lineOf: s.lineOf, under: s.underLine, held: map[pathCall]heldAnswer{}, unaskedOf: map[int]unasked{}}
	s.approvals = &approval.Queue{Agent: s.Spec.Agent, Workspace: s.Spec.Workspace, Publish: s.approvalChanged,
		Rules: func() approval.Rules { return *s.toolRules.Load() }}
	return nil
}

func (s *Shim) compileTools(v wire.Settings) (*approval.Rules, error) {
	tools, err := s.toolNames.Compile(v.Tools)
	if err != nil {
		return nil, err
	}
	return &approval.Rules{Tools: tools, Remembered: v.Remembered}, nil
}

// approvalChanged reports what happened to a question.
func (s *Shim) approvalChanged(c approval.Change) {
	v := c.Approval
	what := approval.Line(v.Kind, v.Tool, api.Shorten(v.What, 200))
	data := map[string]any{"id": v.ID, "kind": v.Kind, "tool": v.Tool, "what": api.Shorten(v.What, 1000), "since": v.Since}
	ev := api.Event{Type: api.EventApprovalAsked, Agent: s.Spec.Agent, Data: data, Message: fmt.Sprintf("agent %s asks (%s): %s", s.Spec.Agent, v.ID, what)}
	switch {
	case c.Asked:
	case v.Answer == nil:
		ev.Type, ev.Message = api.EventApprovalGone, fmt.Sprintf("agent %s does not wait for question %s any more: %s", s.Spec.Agent, v.ID, what)
	default:
		a := v.Answer
		ev.Type, ev.Message = api.EventApprovalAnswered, fmt.Sprintf("question %s of agent %s was answered by %s: %s (%s)", v.ID, s.Spec.Agent, a.By, a.Verdict, what)
		data["verdict"], data["by"], data["scope"], data["reason"] = a.Verdict, a.By, a.Scope, a.Reason
		if a.Raise > 0 {
			data["raise"] = a.Raise
		}
	}
	if v.Answer != nil || s.questionEvents.pass(time.Now()) {
		s.events.Publish(ev)
	} else {
		s.omitQuestion()
	}
	if a := v.Answer; a != nil && (c.Rule != nil || a.Verdict == api.VerdictAbort || v.Kind == api.ApprovalWrite && a.Verdict == api.VerdictApprove) {
		v.Detail = ""
		s.events.Publish(api.Event{Type: wire.EventAnswered, Agent: s.Spec.Agent, Data: map[string]any{"answered": wire.Answered{Approval: v, Rule: c.Rule}}})
	}
}

// ask puts a question and waits for its answer, or until ctx or the wait ends: then the answer
// is a denial.
func (s *Shim) ask(ctx context.Context, q approval.Question, wait time.Duration) (id string, a api.Answer, err error) {
	s.mu.Lock()
	if s.main != nil && !s.main.over() {
		q.Task = s.task.id
	}
	s.mu.Unlock()
	c, err := s.approvals.Ask(q, time.Now().Add(wait))
	if err != nil {
		return "", a, err
	}
	shown := shortQuestion(q) // what waits does not hold all of the question
	timer := time.NewTimer(wait)
	defer timer.Stop()
	why := "nobody answered within " + wait.String()
	select {
	case <-c.Done():
	case <-timer.C:
	case <-ctx.Done():
		why = "what asked is gone"
	case <-s.stopping:
		why = "the agent is stopped"
	}
	a, ok := c.Leave()
	if !ok {
		a = api.Answer{Verdict: api.VerdictDeny, Reason: why}
	}
	if ok || ctx.Err() == nil && s.ctx.Err() == nil {
		s.deniedQuestion(shown, a)
	}
	return c.ID(), a, nil
}

// insidePermission is permission_request of an agent's program.
func (s *Shim) insidePermission(w http.ResponseWriter, r *http.Request) error {
	q, wait, err := s.readPermission(r, s.toolRoots())
	if err != nil {
		return err
	}
	if why := s.foreseen(r.Context(), q); why != "" {
		return writeJSON(w, api.PermissionResponse{Type: "permission_response", RequestID: q.Request, Result: api.VerdictDeny, Reason: why})
	}
	q.PID, q.Program = caller(r)
	requestID, before := q.Request, s.markOf(q) // what waits does not hold all of the question
	call := s.coverOf(q)
	id, a, err := s.ask(r.Context(), q, wait)
	if err != nil {
		s.approvedCall(call, "", api.Answer{})
		return err
	}
	if a.Verdict == api.VerdictApprove {
		s.beforeTool(r.Context(), before)
	}
	s.approvedCall(call, id, a)
	return writeJSON(w, api.PermissionResponse{Type: "permission_response", RequestID: requestID, ID: id, Result: a.Verdict, Reason: a.Reason, Rule: a.Rule})
}

// toolRoots are where the repository is for the agent's tools.
func (s *Shim) toolRoots() []string { return []string{s.Spec.ProjectPath, s.Spec.Mountpoint} }

// readPermission reads a permission_request. Only what is kept of it stays in memory.
func (s *Shim) readPermission(r *http.Request, roots []string) (q approval.Question, wait time.Duration, err error) {
	body, err := io.ReadAll(r.Body) // bounded by wholeBody
	if err != nil {
		return q, 0, err
	}
	// What is no text would be shown, and remembered, as another one.
	if !isText(body) {
		return q, 0, api.Errorf(api.CodeBadRequest, "request body: it is not UTF-8")
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var req api.PermissionRequest
	if err := readJSON(r, &req); err != nil {
		return q, 0, err
	}
	wait = time.Duration(req.TimeoutSeconds) * time.Second
	switch {
	case req.Type != "" && req.Type != "permission_request":
		return q, 0, wrongType(req.Type, "permission_request")
	case wait < 0 || wait > maxAnswerWait:
		return q, 0, api.Errorf(api.CodeBadRequest, "timeout_seconds = %d: from 0 to 7 days", req.TimeoutSeconds)
	case wait == 0:
		wait = usualAnswerWait
	}
	q, err = s.toolNames.Question(req.Tool, req.Input, roots)
	q.Request, q.Call = req.RequestID, steps.Call(s.Spec.ProjectPath, req.Tool, []byte(q.Detail))
	return q, wait, err
}

// isText reports whether JSON has UTF-8 only: neither other bytes nor halves of surrogate pairs,
// which encoding/json replaces by U+FFFD.
func isText(b []byte) bool {
	if !utf8.Valid(b) {
		return false
	}
	unit := func(i int) (rune, bool) {
		if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 16)
		return rune(n), err == nil
	}
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if r, ok := unit(i); ok && utf16.IsSurrogate(r) {
			low, ok := unit(i + 6)
			if !ok || utf16.DecodeRune(r, low) == unicode.ReplacementChar {
				return false
			}
			i += 6
		}
		i++ // what is escaped
	}
	return true
}

func wrongType(got, want string) error {
	return api.Errorf(api.CodeBadRequest, "type = %q: must be %q", api.Shorten(got, 32), want)
}

// caller is the process at the other end of the connection: its pid on the host, and its name,
// which it chose itself.
func caller(r *http.Request) (pid int, program string) {
	p, ok := r.Context().Value(peerKey{}).(peer.Peer)
	if !ok || p.PID <= 0 {
		return 0, ""
	}
	return int(p.PID), comm(int(p.PID))
}

func (s *Shim) handleApprovals(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]any{"approvals": s.approvals.Open()})
}

func (s *Shim) handleApproval(w http.ResponseWriter, r *http.Request) error {
	v, err := s.approvals.Get(r.PathValue("id"))
	if err != nil {
		return err
	}
	if q, ok := s.approvals.Question(v.ID); ok {
		v.Diff, v.DiffHidden = approval.Diff(q, s.views.current)
	}
	return writeJSON(w, v)
}

// handleAnswer takes an answer. What it holds for beyond the call takes effect in this shim at
// once; polisd saves it, and sends it to the shims of the other agents.
func (s *Shim) handleAnswer(w http.ResponseWriter, r *http.Request) error {
	var req wire.AnswerRequest
	if err := readJSON(r, &req); err != nil {
		return err
	}
	v, err := s.approvals.Answer(r.PathValue("id"), api.Answer{Verdict: req.Verdict, Scope: req.Scope, Reason: req.Reason, By: req.By, Name: req.Name, Role: req.Role, Raise: req.Raise})
	if err != nil {
		return err
	}
	if v.Rule != nil {
		s.remember(*v.Rule)
	}
	return writeJSON(w, wire.Answered{Approval: v.Approval, Rule: v.Rule})
}

// remember adds an answer to the rules until polisd sends it with the settings.
func (s *Shim) remember(r api.ApprovalRule) {
	for {
		old := s.toolRules.Load()
		now := approval.Rules{Tools: old.Tools, Remembered: append(slices.Clone(old.Remembered), r)}
		if s.toolRules.CompareAndSwap(old, &now) {
			return
		}
	}
}
