package table

import (
	"crypto/subtle"
	"fmt"
	"strings"
	"time"
)

// session is the connection state of one agent's shim.
type session struct {
	agent, id, secret string
	workspace         string
	live              bool
	lost              time.Time
	// broken are paths whose lease was broken and not granted to this agent again. A claim of
	// one was sent before the client knew, and must not bring the lease back.
	broken map[string]struct{}
}

// maxBroken bounds session.broken. A claim of a path beyond it restores the lease.
const maxBroken = 4096

// noteBroken records that a lease was broken, for claims that are on their way.
func (t *Table) noteBroken(l *lease) {
	s := t.sessions[l.Holder]
	if s == nil || l.Explicit || len(s.broken) >= maxBroken {
		return
	}
	if s.broken == nil {
		s.broken = map[string]struct{}{}
	}
	s.broken[l.Path] = struct{}{}
}

// Hello opens a session, or resumes the one with the same id and secret
// (resumed = true, its leases are still there). An agent's lost session is
// replaced by a new one and loses its leases at once; a live one is not
// (ErrSessionExists).
func (t *Table) Hello(workspace, agent, id, secret string) (resumed bool, err error) {
	if err := CheckName("agent", agent); err != nil {
		return false, err
	}
	if strings.Contains(agent, ":") {
		return false, fmt.Errorf("%w: agent %q", ErrInvalid, agent)
	}
	if id == "" || secret == "" || len(id) > MaxName || len(secret) > MaxName {
		return false, fmt.Errorf("%w: session of %s lacks id or secret", ErrInvalid, agent)
	}
	r := Request{Workspace: workspace, Holder: agent, Keys: []Key{{Mode: Read}}}
	if err := r.check(); err != nil {
		return false, err
	}
	if s := t.sessions[agent]; s != nil {
		same := subtle.ConstantTimeCompare([]byte(s.id), []byte(id)) &
			subtle.ConstantTimeCompare([]byte(s.secret), []byte(secret))
		switch {
		case same == 1 && s.workspace == workspace:
			s.live = true
			t.forgetWaiters(agent, id)
			for l := range t.holders[agent] {
				l.seen = false
			}
			return true, nil
		case s.live:
			return false, fmt.Errorf("hello of %s: %w", agent, ErrSessionExists)
		}
		t.end(s, WhyReplaced)
	}
	t.sessions[agent] = &session{agent: agent, id: id, secret: secret, workspace: workspace, live: true}
	return false, nil
}

// Disconnect marks a session as lost. Its requests leave the queue; its
// leases stay for StaleTimeout.
func (t *Table) Disconnect(agent, id string) {
	s := t.sessions[agent]
	if s == nil || s.id != id || !s.live {
		return
	}
	s.live, s.lost = false, t.Now()
	t.alarm(s.lost.Add(t.StaleTimeout))
	t.forgetWaiters(agent, id)
	t.emit(Effect{Kind: SessionStale, Holder: agent, Session: id})
}

func (t *Table) forgetWaiters(agent, id string) {
	touched := map[string]bool{}
	for _, w := range t.inOrder() {
		if w.Holder == agent && w.Session == id {
			t.refuse(w, ErrNoSession)
			touched[w.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// Bye ends a session and its agent's leases at once, but for those that are kept until the merge:
// an agent that stopped normally has changed those paths, and they are not merged yet. They
// become explicit leases of the agent.
func (t *Table) Bye(agent, id string) {
	if s := t.sessions[agent]; s != nil && s.id == id {
		for l := range t.holders[agent] {
			t.keepForMerge(l)
		}
		t.end(s, WhyBye)
	}
}

// keptForMerge is the reason of a lease that outlives its session.
const keptForMerge = "changed and not merged yet"

func (t *Table) keepForMerge(l *lease) {
	r := Request{Holder: l.Holder, Explicit: true}
	if !l.Merge || l.Explicit || len(t.explicit) >= t.MaxExplicit || t.held(t.spaces[l.Workspace], &r, Key{Path: l.Path}) != nil {
		return
	}
	l.Explicit, l.Reason = true, keptForMerge
	t.explicit[l] = struct{}{}
}

// DropAgent ends everything of an agent: session, leases (explicit ones too), waiting requests;
// but not what Bye kept until the merge. It returns the number of leases.
func (t *Table) DropAgent(agent string) int {
	n := 0
	for l := range t.holders[agent] {
		if !l.kept() {
			n++
		}
	}
	if s := t.sessions[agent]; s != nil {
		t.end(s, WhyBye)
	} else {
		t.dropHolder(agent, WhyBye)
	}
	t.returned(agent)
	return n
}

func (t *Table) end(s *session, why Why) {
	delete(t.sessions, s.agent)
	t.dropHolder(s.agent, why)
	t.emit(Effect{Kind: SessionGone, Holder: s.agent, Session: s.id, Why: why})
}

func (t *Table) dropHolder(holder string, why Why) {
	touched := map[string]bool{}
	for _, w := range t.inOrder() {
		if w.Holder == holder {
			t.refuse(w, ErrNoSession)
			touched[w.Workspace] = true
		}
	}
	for l := range t.holders[holder] {
		if l.kept() {
			continue
		}
		t.drop(l, why)
		touched[l.Workspace] = true
	}
	if ws, any := t.returnAll(holder); any {
		touched[ws] = true
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// kept reports whether a lease waits for the merge of an agent that has stopped.
func (l *lease) kept() bool { return l.Explicit && l.Merge }

// DropKept drops what Bye kept until the agent's merge.
func (t *Table) DropKept(agent string) {
	touched := map[string]bool{}
	for l := range t.holders[agent] {
		if l.kept() {
			t.drop(l, WhyMerged)
			touched[l.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
}

// DropMerging drops the leases that an agent's session keeps until its merge.
func (t *Table) DropMerging(agent string) {
	touched := map[string]bool{}
	for l := range t.holders[agent] {
		if l.Merge && !l.Explicit {
			t.drop(l, WhyMerged)
			touched[l.Workspace] = true
		}
	}
	for ws := range touched {
		t.pump(ws)
	}
}
