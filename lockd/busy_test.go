package lockd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestALeaseOfABusyFileStays(t *testing.T) {
	for _, hold := range []Hold{HoldClose, Hold(20 * time.Millisecond)} {
		t.Run(hold.String(), func(t *testing.T) {
			s := serve(t, socket(t))
			var busy atomic.Bool
			var asked atomic.Int64
			busy.Store(true)
			ann := join(t, s.Path, "ann", holds(hold), func(c *Client) {
				c.Busy = func(p string) bool { asked.Add(1); return p == "f" && busy.Load() }
			})
			bob := join(t, s.Path, "bob", waits(0))
			acquire(t, ann, "f").Done()
			acquire(t, ann, "g").Done()
			soon(t, func() bool { return len(heldPaths(s, "ann")) == 1 })
			require.Equal(t, []string{"f"}, heldPaths(s, "ann"))
			conflict(t, bob, "f")
			tk := acquire(t, ann, "f") // in use again
			tk.Done()
			n := asked.Load()
			soon(t, func() bool { return asked.Load() > n+1 }) // and read again and again
			conflict(t, bob, "f")
			busy.Store(false)
			soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 })
			acquire(t, bob, "f")
		})
	}
}

func TestAHandleOpenedDuringTheLookForWritersKeepsTheLease(t *testing.T) {
	s := serve(t, socket(t))
	looking, goOn := make(chan struct{}, 16), make(chan struct{})
	ann := join(t, s.Path, "ann", holds(Hold(time.Hour)), func(c *Client) {
		c.HoldFor = func(string) Hold { return HoldClose }
		c.Busy = func(string) bool { looking <- struct{}{}; <-goOn; return false }
	})
	acquire(t, ann, "f").Done()
	<-looking
	tk := acquire(t, ann, "f") // cached: no round trip, although the busy check is under way
	goOn <- struct{}{}
	require.Never(t, func() bool { return len(heldPaths(s, "ann")) == 0 }, 50*time.Millisecond, 5*time.Millisecond)
	require.True(t, tk.Valid())
	tk.Done()
	close(goOn)
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 })
}
