package shim

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/view"
)

// maxRemoteAsks bounds the questions about one request: its second differs from the first only if
// the rules or the agent's branches changed while it was open.
const maxRemoteAsks = 3

// remoteReply is the response of polisd to a request about a remote.
type remoteReply struct {
	*http.Response
	// question is what a person has to approve first, nil if nothing.
	question *api.RemoteQuestion
}

// remoteExchange sends a request to polisd. done returns its place among the exchanges.
func (s *Shim) remoteExchange(ctx context.Context, body []byte, accept, approved string) (r remoteReply, done func(), err error) {
	select {
	case s.inside.remotes <- struct{}{}:
	default:
		return r, nil, api.Errorf(api.CodeQuota, "agent %s has %d exchanges with remotes under way: that is the limit", s.Spec.Agent, maxRemotes)
	}
	leave := func() { <-s.inside.remotes }
	if r.Response, err = s.askDaemon(ctx, "remote", body, accept, approved); err != nil { //nolint:bodyclose // done closes it
		leave()
		return r, nil, err
	}
	done = func() { _ = r.Body.Close(); leave() } //nolint:errcheck // it was read
	if r.StatusCode != http.StatusForbidden {
		return r, done, nil
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxBody))
	if err != nil {
		done()
		return r, nil, api.Errorf(api.CodeUnavailable, "polisd does not answer: %w", err)
	}
	r.question = questionOf(text)
	r.Body = io.NopCloser(bytes.NewReader(text))
	return r, done, nil
}

// questionOf is the question in a refusal of polisd.
func questionOf(text []byte) *api.RemoteQuestion {
	var e struct {
		Code    api.Code `json:"code"`
		Details struct {
			Question *api.RemoteQuestion `json:"question"`
		} `json:"details"`
	}
	if json.Unmarshal(text, &e) != nil || e.Code != api.CodeNotApproved || e.Details.Question == nil || e.Details.Question.Key == "" {
		return nil
	}
	return e.Details.Question
}

// approveRemote returns nil once a person has approved the request.
func (s *Shim) approveRemote(r *http.Request, q api.RemoteQuestion) error {
	asked := approval.Question{Kind: api.ApprovalGit, Text: q.Text, Detail: q.Detail, Note: q.Note}
	asked.PID, asked.Program = caller(r)
	id, a, err := s.ask(r.Context(), asked, usualAnswerWait)
	if err != nil {
		return err
	}
	if a.Verdict == api.VerdictApprove {
		return nil
	}
	return s.notApproved(asked, id, a, "git", "git.ask")
}

// notApproved records a denial and returns it as an error for the agent. op is what was tried,
// rule the setting that asks.
func (s *Shim) notApproved(q approval.Question, id string, a api.Answer, op, rule string) error {
	hint := "do without it, or ask for something else"
	if a.Reason != "" {
		hint = "the answer: " + a.Reason
	}
	s.denied(view.Denial{Time: time.Now(), Op: op, Path: api.Shorten(q.Text, 400), Code: view.CodeNotApproved, Errno: "EACCES",
		Rule: rule, Pid: uint32(max(q.PID, 0)), Program: q.Program, Hint: hint, By: denier(a), Reason: a.Reason})
	e := api.Errorf(api.CodeNotApproved, "%s %s is denied", op, approval.Escape(api.Shorten(q.Text, 200)))
	if a.Reason != "" {
		e.Message += ": " + a.Reason
	}
	if id != "" {
		e = e.With("id", id)
	}
	return e.WithHint("do without it, or ask for something else")
}

// remoteStream writes the lines of a response (application/x-ndjson), if polisd's own has not
// begun: the agent's git reads that it waits.
type remoteStream struct {
	w     http.ResponseWriter
	begun bool
}

func (t *remoteStream) line(v map[string]any) {
	if !t.begun {
		t.begun = true
		t.w.Header().Set("Content-Type", mimeLines)
	}
	if err := json.NewEncoder(t.w).Encode(v); err == nil {
		_ = http.NewResponseController(t.w).Flush() //nolint:errcheck // a client that left is noticed by its context
	}
}

// fail reports an error in the form in which the response has begun.
func (t *remoteStream) fail(err error) error {
	if !t.begun {
		return err
	}
	t.line(map[string]any{"error": api.AsError(err)})
	return nil
}

// copy passes polisd's response on.
func (t *remoteStream) copy(resp remoteReply) error {
	switch {
	case t.begun && resp.Header.Get("Content-Type") != mimeLines:
		var e api.Error
		err := json.NewDecoder(io.LimitReader(resp.Body, maxBody)).Decode(&e)
		if err == nil && e.Code == "" {
			err = errors.New("it is no error")
		}
		if err != nil {
			return t.fail(api.Errorf(api.CodeUnavailable, "response of polisd: %w", err))
		}
		return t.fail(&e)
	case !t.begun:
		t.w.Header().Set("Content-Type", resp.Header.Get("Content-Type"))
		t.w.WriteHeader(resp.StatusCode)
	}
	rc := http.NewResponseController(t.w)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			if _, werr := t.w.Write(buf[:n]); werr != nil {
				return nil //nolint:nilerr // the client disconnected
			}
			if rc.Flush() != nil {
				return nil //nolint:nilerr // the client disconnected
			}
		}
		if err != nil {
			return nil //nolint:nilerr // the reader detects a truncated response
		}
	}
}
