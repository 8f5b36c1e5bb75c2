package lockd

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// sent is how many numbered messages a client has sent.
func (c *Client) sent() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastID
}

func (c *Client) resting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dormant
}

func beats(d time.Duration) func(*Client) { return func(c *Client) { c.Heartbeat = d } }

func TestAClientThatHoldsNothingHardlyPings(t *testing.T) {
	path := socket(t)
	serve(t, path)
	busy := join(t, path, "busy", beats(10*time.Millisecond), holds(HoldClose))
	idle := join(t, path, "idle", beats(10*time.Millisecond), holds(HoldClose))
	tk := acquire(t, busy, "f")
	defer tk.Done()
	soon(t, idle.resting)
	was, from := idle.sent(), busy.sent()
	soon(t, func() bool { return busy.sent() >= from+5*dormantBeats })
	require.False(t, busy.resting(), "it holds a lease")
	require.LessOrEqual(t, idle.sent()-was, uint64(10), "while the other sent %d pings", busy.sent()-from)

	own := acquire(t, idle, "g")
	require.True(t, own.Valid())
	soon(t, func() bool { return !idle.resting() })
	now := idle.sent()
	soon(t, func() bool { return idle.sent() >= now+3 })
	own.Done()
	soon(t, idle.resting)
}

// TestALeaseThatARestingClientWaitedForIsValid: the answer comes later than the stale timeout
// after the request, which ended the rest.
func TestALeaseThatARestingClientWaitedForIsValid(t *testing.T) {
	path := socket(t)
	serve(t, path, func(s *Server) { s.StaleTimeout = 600 * time.Millisecond })
	ann := join(t, path, "ann", holds(HoldClose))
	bob := join(t, path, "bob", holds(HoldClose), waits(time.Minute))
	first := acquire(t, ann, "f")
	soon(t, bob.resting)
	soon(t, func() bool { return !bob.trusted() }) // it has rested for longer than that
	got := make(chan *Ticket, 1)
	go func() {
		tk, err := bob.Acquire(t.Context(), Request{Paths: []string{"f"}})
		if err != nil {
			t.Error(err)
		}
		got <- tk
	}()
	began := bob.since()
	soon(t, func() bool { return bob.since()-began > 2*time.Duration(bob.stale.Load()) && bob.trusted() })
	require.True(t, first.Valid())
	first.Done()
	tk := <-got
	require.NotNil(t, tk)
	require.True(t, tk.Valid())
	tk.Done()
}
