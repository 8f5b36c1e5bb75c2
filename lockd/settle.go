package lockd

import (
	"errors"

	"polis/lockd/table"
)

// settle sends the table's effects where they belong. Called with s.mu held.
func (s *Server) settle() {
	for _, e := range s.table.Effects() {
		s.settleOne(e)
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
		if c := s.byAgent[e.Lease.Holder]; c != nil && !e.Lease.Explicit {
			k := wirePath(e.Lease.Path)
			c.link.post(&message{Type: msgWaiter, Keys: []wireKey{k}, Agent: e.Request.Holder, Op: e.Request.Op})
		}
	case table.Dropped:
		kind := EventReleased
		if e.Why == table.WhyBroken {
			kind = EventBroken
			s.stats.broken.Add(1)
		}
		// Leases that end with their session are told in one event of the session.
		if e.Lease.Explicit || e.Why == table.WhyBroken || e.Why == table.WhyEvicted {
			s.event(Event{Kind: kind, Why: string(e.Why)}.about(e.Lease))
		}
		if c := s.byAgent[e.Lease.Holder]; c != nil && !e.Lease.Explicit {
			c.link.post(&message{Type: msgLost, Keys: []wireKey{wirePath(e.Lease.Path)}, Text: string(e.Why)})
		}
	case table.SessionStale:
		s.stats.stale.Add(1)
		s.event(Event{Kind: EventStale, Holder: e.Holder, Why: "connection lost"})
		s.Log.Warn("lease session lost its connection", "op", "session", "agent", e.Holder)
	case table.SessionGone:
		delete(s.unmerge, e.Holder)
		s.event(Event{Kind: EventGone, Holder: e.Holder, Why: string(e.Why)})
		s.Log.Info("lease session ended", "op", "session", "agent", e.Holder, "why", string(e.Why))
	case table.GraceOver:
		s.Log.Info("grace period over, new leases are granted", "op", "grace")
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
		Since: ce.Since, Token: ce.Token, Reason: ce.Reason, Op: r.Op, Pid: r.Pid, Mode: ce.Mode,
	})
}
