package lockd

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kept is what must outlive a restart of the server: the explicit leases,
// which no session reclaims, and a bound for the tokens given so far. It is
// small: at most Table.MaxExplicit leases.
type Kept struct {
	// Token is above every token that was issued when Kept was made, and for a while after that.
	Token  uint64  `json:"token"`
	Leases []Lease `json:"leases"`
}

const (
	// tokenReserve is how far Kept.Token is ahead, so that grants need no
	// write of their own: one in half a million.
	tokenReserve = 1 << 20
	// saveBound is how long a lock waits to be saved.
	saveBound = 5 * time.Second
	// firstRetry and lastRetry are the pauses after a save that failed.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// ErrNotKept: an explicit lock was not granted because it could not be saved for a restart (most
// likely the disk is full).
var ErrNotKept = errors.New("the lock could not be saved")

// saving tracks which changes Save has stored. Guarded by Server.mu.
type saving struct {
	want  uint64 // grows with every change
	have  uint64 // what of want is saved
	err   error  // of the last attempt, nil after a success
	tries chan struct{}
	token uint64 // reserved by the last save
	kick  chan struct{}
}

// keeps reports whether Kept has the lease.
func (s *Server) keeps(l Lease) bool {
	return l.Explicit && (s.Keep == nil || s.Keep(l))
}

// changed records that a saved lease came or went. Called with s.mu held.
func (s *Server) changed(l Lease) {
	if s.Save != nil && s.keeps(l) {
		s.toSave()
	}
}

func (s *Server) toSave() {
	s.saving.want++
	select {
	case s.saving.kick <- struct{}{}:
	default:
	}
}

// saved waits until everything so far is saved.
func (s *Server) saved(ctx context.Context) error {
	limit := time.NewTimer(saveBound)
	defer limit.Stop()
	s.mu.Lock()
	want := s.saving.want
	s.mu.Unlock()
	for {
		s.mu.Lock()
		have, err, next := s.saving.have, s.saving.err, s.saving.tries
		s.mu.Unlock()
		switch {
		case have >= want:
			return nil
		case err != nil:
			return fmt.Errorf("%w: %w", ErrNotKept, err)
		}
		select {
		case <-next:
		case <-limit.C:
			return fmt.Errorf("%w: not done in %s", ErrNotKept, saveBound)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// saver calls Save after changes, one call for all that came meanwhile, and
// once more at the end.
func (s *Server) saver(ctx context.Context) {
	pause := firstRetry
	for {
		var retry <-chan time.Time
		if err := s.save(); err != nil {
			retry = time.After(pause)
			pause = min(2*pause, lastRetry)
		} else {
			pause = firstRetry
		}
		select {
		case <-s.saving.kick:
		case <-retry:
		case <-ctx.Done():
			if err := s.save(); err != nil {
				s.Log.Error("explicit locks not saved; the next start does not know them", "op", "save", "err", err)
			}
			return
		}
	}
}

func (s *Server) save() error {
	s.mu.Lock()
	v := &s.saving
	last := s.table.LastToken()
	if v.want == v.have && v.token >= last+tokenReserve/2 {
		s.mu.Unlock()
		return nil
	}
	want, k := v.want, Kept{Token: last + tokenReserve, Leases: s.table.Explicit(s.keeps)}
	s.mu.Unlock()
	err := s.Save(k)
	s.mu.Lock()
	defer s.mu.Unlock()
	failed := v.err != nil
	if v.err = err; err == nil {
		v.have, v.token = want, k.Token
	}
	close(v.tries)
	v.tries = make(chan struct{})
	switch {
	case err != nil && !failed:
		s.Log.Error("explicit locks cannot be saved; new ones are refused", "op", "save", "err", err)
	case err == nil && failed:
		s.Log.Warn("explicit locks are saved again", "op", "save")
	}
	return err
}

// restore restores what an earlier server saved. Expired and conflicting leases are left out;
// leases of a session are reclaimed by its client. Called before any client can connect.
func (s *Server) restore() {
	for _, l := range s.Kept.Leases {
		if !s.table.Restore(l) {
			s.Log.Info("lock ended while polisd was down", "op", "restore", "path", l.Path, "agent", l.Holder)
		}
	}
	s.table.Effects() // no client is connected that could wait
}
