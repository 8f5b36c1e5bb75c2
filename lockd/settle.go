package lockd

import (
	"errors"
	"time"

	"polis/lockd/table"
)

// settle sends the table's effects to those they concern. Called with s.mu held.
func (s *Server) settle() {
	for _, e := range s.table.Effects() {
		s.settleOne(e)
	}
	s.moved()
	if s.Save != nil && s.table.LastToken()+tokenReserve/2 > s.saving.token {
		select {
		case s.saving.kick <- struct{}{}:
		default:
		}
	}
	if next, due := s.table.Next(); due && (s.armed.IsZero() || next.Before(s.armed)) {
		s.armed = next
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
}

func (s *Server) settleOne(e table.Effect) {
	switch e.Kind {
	case table.Granted, table.Refused:
		s.settleWait(e)
	case table.Waiting:
		s.event(Event{Kind: EventWaiting, Waiter: e.Request.Holder, Op: e.Request.Op}.about(e.Lease))
		if c := s.byAgent[e.Lease.Holder]; c != nil {
			k := wirePath(e.Lease.Path)
			c.link.post(&message{Type: msgWaiter, Keys: []wireKey{k}, Agent: e.Request.Holder, Op: e.Request.Op})
		}
	case table.Dropped:
		s.changed(e.Lease)
		s.notice(e.Lease)
		// One event of the session covers the leases that end with it.
		if e.Lease.Explicit || e.Why == table.WhyEvicted {
			s.event(Event{Kind: EventReleased, Why: string(e.Why)}.about(e.Lease))
		}
		s.lost(e.Lease, string(e.Why))
	case table.SessionStale:
		s.stats.stale.Add(1)
		s.event(Event{Kind: EventStale, Holder: e.Holder, Why: "connection lost"})
		s.Log.Warn("lease session lost its connection", "op", "session", "agent", e.Holder)
	case table.SessionGone:
		delete(s.unmerge, e.Holder)
		s.event(Event{Kind: EventGone, Holder: e.Holder, Why: string(e.Why)})
		s.Log.Info("lease session ended", "op", "session", "agent", e.Holder, "why", string(e.Why))
	case table.Recall:
		s.stats.recalled.Add(1)
		if c := s.byAgent[e.Holder]; c != nil {
			c.link.post(&message{Type: msgRecall, Lent: []wireKey{wireDelegation(e.Delegation)}})
		}
	case table.Overdue:
		s.Log.Warn("shim does not return a directory; its connection is ended", "op", "recall", "agent", e.Holder, "path", e.Lease.Path)
		if c := s.byAgent[e.Holder]; c != nil {
			c.link.shut(errOverdue)
		}
	case table.GraceOver:
		s.Log.Info("grace period over; new leases are granted", "op", "grace", "took", e.Took.Round(time.Millisecond), "absent", e.Awaited)
	}
}

// settleBroken is settle for a break: its event has by whom, and why.
func (s *Server) settleBroken(by, reason string) {
	for _, e := range s.table.Effects() {
		if e.Kind != table.Dropped || e.Why != table.WhyBroken {
			s.settleOne(e)
			continue
		}
		s.stats.broken.Add(1)
		s.changed(e.Lease)
		s.event(Event{Kind: EventBroken, Why: string(e.Why), By: by, Note: reason}.about(e.Lease))
		s.Log.Warn("lock broken", "op", "break", "agent", e.Holder, "path", e.Lease.Path, "by", by, "reason", reason)
		text := "broken by " + by
		if reason != "" {
			text += ": " + reason
		}
		s.lost(e.Lease, text)
		s.notice(e.Lease)
	}
}

// lost notifies an agent that it no longer has a lease of its session.
func (s *Server) lost(l Lease, why string) {
	if c := s.byAgent[l.Holder]; c != nil && !l.Explicit {
		c.link.post(&message{Type: msgLost, Keys: []wireKey{wirePath(l.Path)}, Text: why})
	}
}

// notice notifies an agent that its explicit leases, which its client does not track, have
// changed.
func (s *Server) notice(l Lease) {
	if c := s.byAgent[l.Holder]; c != nil && l.Explicit && c.peer >= lockVersion {
		c.link.post(&message{Type: msgChanged})
	}
}

func (s *Server) settleWait(e table.Effect) {
	if e.Kind == table.Refused {
		s.refused(e.Request, e.Err)
	} else {
		s.granted(e.Request, e.Leases)
	}
	to, ok := s.waits[e.Wait]
	if !ok {
		return
	}
	delete(s.waits, e.Wait)
	if to.call != nil {
		to.call <- e // has room for it
		return
	}
	delete(to.conn.pending, to.id)
	to.conn.link.post(reply(to.id, e.Leases, e.Err))
}

func reply(id uint64, leases []Lease, err error) *message {
	if err != nil {
		return errorMessage(id, err)
	}
	m := &message{Type: msgGrant, ID: id, Tokens: make([]uint64, len(leases))}
	for i, l := range leases {
		m.Tokens[i] = l.Token
	}
	return m
}

func (s *Server) granted(r table.Request, leases []Lease) {
	s.stats.granted.Add(1)
	if r.Explicit {
		for _, l := range leases {
			s.event(Event{Kind: EventGranted, Op: l.Op}.about(l))
			s.changed(l)
			s.notice(l)
		}
	}
}

func (s *Server) refused(r table.Request, err error) {
	var ce *ConflictError
	if !errors.As(err, &ce) {
		return
	}
	s.stats.conflicts.Add(1)
	s.event(Event{
		Kind: EventConflict, Workspace: r.Workspace, Path: ce.Path, Holder: ce.Holder, Waiter: r.Holder,
		Since: ce.Since, Token: ce.Token, Reason: ce.Reason, Op: r.Op, Pid: r.Pid, Mode: ce.Mode, Explicit: r.Explicit,
	})
}
