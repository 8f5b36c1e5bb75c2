package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"polis/daemon/gateway/provider"
)

// turns admits the requests to a service that has asked for a pause: one at a time from the agent's turn on,
// and after each answer without a limit twice as many. So all agents begin with one, however many requests
// each of them has.
type turns struct {
	mu     sync.Mutex
	window int // requests that may wait for their answer's header; 0: any number
	open   int
	from   time.Time       // the agent's turn
	wait   []chan struct{} // first come, first served; closed when the state has changed
}

// turn is one admitted request.
type turn struct {
	t    *turns
	once sync.Once
}

// at sets when the turn of the agent is, from which on it has one request.
func (t *turns) at(from time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.window, t.from = 1, from
}

// enter admits a request, or returns what is closed when it may try again, and when the turn is.
// was is what an earlier call returned: its place among those that wait.
func (t *turns) enter(now time.Time, was chan struct{}) (*turn, chan struct{}, time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	first := len(t.wait) == 0 || was != nil && t.wait[0] == was
	if t.window == 0 || first && t.open < t.window && !now.Before(t.from) {
		t.leave(was)
		t.open++
		return &turn{t: t}, nil, time.Time{}
	}
	if was == nil {
		was = make(chan struct{}, 1)
		t.wait = append(t.wait, was)
	}
	return nil, was, t.from
}

// leave removes a request from those that wait, and wakes the next. t.mu is held.
func (t *turns) leave(was chan struct{}) {
	for i, c := range t.wait {
		if c == was {
			t.wait = append(t.wait[:i:i], t.wait[i+1:]...)
			break
		}
	}
	t.wake()
}

// wake has those try again that can be admitted. t.mu is held.
func (t *turns) wake() {
	n := len(t.wait)
	if t.window > 0 {
		n = min(n, max(t.window-t.open, 0))
	}
	for _, c := range t.wait[:n] {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// end is called when the header of the answer is there, or there will be none. Only the first call counts.
func (u *turn) end(limited bool) {
	if u == nil {
		return
	}
	u.once.Do(func() {
		u.t.mu.Lock()
		defer u.t.mu.Unlock()
		u.t.open--
		switch {
		case limited:
			u.t.window = 1
		case u.t.window > 0:
			if u.t.window *= 2; u.t.window > maxRequests {
				u.t.window = 0
			}
		}
		u.t.wake()
	})
}

// cancel is end of a request that is not sent.
func (u *turn) cancel() {
	u.once.Do(func() {
		u.t.mu.Lock()
		defer u.t.mu.Unlock()
		u.t.open--
		u.t.wake()
	})
}

// takeTurn waits for a pause that the service asked for, and for the agent's turn after it.
func (g *Gateway) takeTurn(ctx context.Context, s *service) (*turn, *provider.Failure) {
	var place chan struct{}
	defer func() {
		s.turns.mu.Lock()
		defer s.turns.mu.Unlock()
		s.turns.leave(place)
	}()
	end := g.Now().Add(maxPause)
	for {
		now := g.Now()
		until := s.paused()
		var woken chan struct{}
		if !until.After(now) {
			var u *turn
			if u, place, until = s.turns.enter(now, place); u != nil {
				return u, nil
			}
			woken = place
			if !until.After(now) { // those before it have not got their answers
				until = end
			}
		}
		wait := until.Sub(now)
		f := &provider.Failure{Status: http.StatusTooManyRequests, Code: CodeRate, RetryAfter: max(seconds(wait), 1), Message: "the model service asked all agents to wait"}
		if wait > maxPause || !now.Before(end) {
			return nil, f
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-woken:
		case <-ctx.Done():
			t.Stop()
			return nil, f
		}
		t.Stop()
	}
}
