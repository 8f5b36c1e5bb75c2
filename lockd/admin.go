package lockd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"polis/lockd/table"
)

// LockRequest requests explicit leases: by name, not by writing to a file.
type LockRequest struct {
	Workspace string
	// Holder is an agent, "user:<uid>", or a name of the daemon's own that is unique to the
	// operation: a holder never conflicts with itself.
	Holder string
	// Paths and Trees are keys as FileKey and RefKey make them.
	Paths, Trees []string
	// Mode is Write unless set.
	Mode   Mode
	Reason string
	// For ends the lease after this time; 0 means it stays until Unlock or Break.
	For time.Duration
	// Soft leaves a lease of the holder that covers the path unchanged.
	Soft bool
	// Wait bounds the wait for other holders; 0 refuses at once.
	Wait time.Duration
	Op   string
	Pid  uint32
}

// Lock takes explicit leases, all or nothing. It returns a *ConflictError if another holder has a
// path for longer than Wait, ErrUnavailable in a grace period, ErrInvalid, ErrLimit, ErrClosed or
// the error of ctx. Locking again what the holder has sets a new reason and end. A lease of an
// agent ends with the agent's session. Leases that Keep selects are saved when Lock returns; if
// saving fails, Lock releases them and returns the error.
func (s *Server) Lock(ctx context.Context, r LockRequest) ([]Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if r.Mode == "" {
		r.Mode = Write
	}
	req := table.Request{
		Workspace: r.Workspace, Holder: r.Holder, Explicit: true, Op: r.Op, Pid: r.Pid, Reason: r.Reason, For: r.For,
		Soft: r.Soft,
	}
	for _, p := range r.Paths {
		req.Keys = append(req.Keys, table.Key{Path: p, Mode: r.Mode, Wait: r.Wait})
	}
	for _, p := range r.Trees {
		req.Keys = append(req.Keys, table.Key{Path: p, Tree: true, Mode: r.Mode, Wait: r.Wait})
	}
	var res table.Result
	var err error
	call := make(chan table.Effect, 1)
	s.do(func(t *table.Table) {
		if s.closed {
			err = ErrClosed
			return
		}
		res, err = t.Acquire(req)
		switch {
		case err != nil:
			s.refused(req, err)
		case res.Wait != 0:
			s.stats.waits.Add(1)
			s.waits[res.Wait] = waitTo{call: call}
		default:
			s.granted(req, res.Leases)
		}
	})
	if err != nil {
		return nil, unavailable(err)
	}
	if res.Wait == 0 {
		return s.awaitSaved(ctx, res.Leases)
	}
	var e table.Effect
	select {
	case e = <-call:
	case <-ctx.Done():
		s.do(func(t *table.Table) { t.Cancel(res.Wait) })
		e = <-call // do sent the end of the wait, granted or not
	}
	if errors.Is(e.Err, table.ErrCanceled) {
		return nil, ctx.Err()
	}
	if e.Err != nil {
		return nil, unavailable(e.Err)
	}
	return s.awaitSaved(ctx, e.Leases)
}

// awaitSaved waits until leases are saved, and releases them if they cannot be.
func (s *Server) awaitSaved(ctx context.Context, leases []Lease) ([]Lease, error) {
	if s.Save == nil || !slices.ContainsFunc(leases, s.keeps) {
		return leases, nil
	}
	err := s.saved(ctx)
	if err == nil {
		return leases, nil
	}
	s.do(func(t *table.Table) {
		for _, l := range leases {
			_, uerr := t.Unlock(l.Workspace, l.Holder, l.Path)
			if uerr != nil {
				s.Log.Debug("lock to give back is gone", "op", "lock", "path", l.Path, "err", uerr)
			}
		}
	})
	return nil, err
}

func unavailable(err error) error {
	if errors.Is(err, table.ErrGrace) {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return err
}

// Unlock releases the explicit lease of holder on exactly this path, or returns ErrNotHeld.
func (s *Server) Unlock(workspace, holder, path string) (l Lease, err error) {
	s.do(func(t *table.Table) { l, err = t.Unlock(workspace, holder, path) })
	return l, err
}

// Break takes every lease on exactly this path from its holder. Open handles of the holder are
// notified (OnLost), not closed. by and reason go into the event and to the holder.
func (s *Server) Break(workspace, path, by, reason string) (out []Lease, err error) {
	s.fetch(workspace, path)
	s.do(func(t *table.Table) {
		if out, err = t.Break(workspace, path); err == nil {
			s.settleBroken(by, reason)
		}
	})
	return out, err
}

// DropAgent ends the session of an agent and all its leases at once. Its client, if it is
// connected, is notified and starts again with none.
func (s *Server) DropAgent(agent string) (leases int) {
	s.do(func(t *table.Table) {
		if c := s.byAgent[agent]; c != nil {
			delete(s.byAgent, agent)
			c.link.post(&message{Type: msgLost, Text: string(table.WhyBye)}) // no keys: all
		}
		leases = t.DropAgent(agent)
	})
	return leases
}

// ReleaseMerge ends the leases an agent keeps until its merge, also those it left when it
// stopped. A connected agent releases them itself, those of open files at the last close; those
// of an agent that is not connected are dropped here.
func (s *Server) ReleaseMerge(agent string) {
	s.do(func(t *table.Table) {
		t.DropKept(agent)
		if known, _ := t.Session(agent); !known {
			return
		}
		// Until the client acknowledges it; see conn.handle.
		s.unmerge[agent] = true
		if c := s.byAgent[agent]; c != nil {
			c.link.post(&message{Type: msgUnmerge})
			return
		}
		t.DropMerging(agent)
	})
}

const (
	// livingEvery is the interval at which the shims that the grace period waits for are checked.
	livingEvery = 100 * time.Millisecond
	// livingBound is how long one check may take.
	livingBound = 5 * time.Second
)

// Expect names the agents whose shims are alive and will reclaim, which lets the grace period end
// as soon as all have (at once, if there are none); it lasts StaleTimeout at most. DropAgent
// removes an agent that turns out to be dead.
func (s *Server) Expect(agents []string) {
	s.do(func(t *table.Table) { t.Expect(agents) })
	if len(agents) > 0 && s.Living != nil {
		s.group.Go(func() error { s.awaitOnlyLiving(); return nil })
	}
}

// awaitOnlyLiving ends the wait of the grace period for shims that end meanwhile: they do not
// come back, and others would wait for StaleTimeout.
func (s *Server) awaitOnlyLiving() {
	tick := time.NewTicker(livingEvery)
	defer tick.Stop()
	for {
		var awaited []string
		s.do(func(t *table.Table) { awaited = t.Awaited() })
		if len(awaited) == 0 {
			return
		}
		for _, agent := range awaited {
			ctx, cancel := context.WithTimeout(s.ctx, livingBound)
			if !s.Living(ctx, agent) {
				s.do(func(t *table.Table) { t.Ended(agent) })
			}
			cancel()
		}
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
	}
}

// List returns the selected leases, sorted by workspace, path and holder. Leases that an agent
// granted itself in a delegated directory appear up to ReportEvery late, and short ones may not
// appear at all.
func (s *Server) List(f Filter) (out []Lease) {
	s.do(func(t *table.Table) { out = t.List(f) })
	return out
}

// maxHolders bounds the answer to a query.
const maxHolders = 64

// Holders returns who holds path: the leases on it and on trees that contain it, as List returns
// them.
func (s *Server) Holders(workspace, path string) (out []Lease, err error) {
	s.do(func(t *table.Table) { out, err = t.Holders(workspace, path, maxHolders) })
	return out, err
}

// Stats returns counters and sizes.
func (s *Server) Stats() Stats {
	st := Stats{
		Granted: s.stats.granted.Load(), Conflicts: s.stats.conflicts.Load(), Waits: s.stats.waits.Load(),
		Reclaimed: s.stats.reclaimed.Load(), Broken: s.stats.broken.Load(), Stale: s.stats.stale.Load(),
		EventsLost: s.stats.eventsLost.Load(), Delegated: s.stats.delegated.Load(), Recalled: s.stats.recalled.Load(),
	}
	s.do(func(t *table.Table) {
		st.Leases, st.Waiters, st.Sessions = t.Len()
		st.Delegations = t.Delegations()
		st.InGrace, st.LastToken = t.InGrace(), t.LastToken()
	})
	return st
}
