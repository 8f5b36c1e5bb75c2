package lockd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestFirstWriterHoldsOthersAreRefused(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann"), join(t, s.Path, "bob")
	tk := acquire(t, a, "src/x.go")
	require.True(t, tk.Valid())
	require.NotZero(t, tk.Token())
	ce := conflict(t, b, "README", "src/x.go")
	require.Equal(t, "ann", ce.Holder)
	require.Equal(t, "src/x.go", ce.Path)
	require.Equal(t, "open-write", ce.Op)
	require.EqualValues(t, 42, ce.Pid)
	require.Equal(t, tk.Token(), ce.Token)
	require.WithinDuration(t, time.Now(), ce.Since, 10*time.Second)
	require.Empty(t, heldPaths(s, "bob"), "nothing is kept of a refused set")
	require.Zero(t, b.Held())

	_, err := a.Acquire(t.Context(), Request{Trees: []string{"dir"}})
	require.NoError(t, err)
	require.Equal(t, "dir", conflict(t, b, "dir/sub/file").Lease)
	_, err = b.Acquire(t.Context(), Request{Paths: []string{"shared"}, Mode: Read})
	require.NoError(t, err)
	_, err = a.Acquire(t.Context(), Request{Paths: []string{"shared"}, Mode: Read})
	require.NoError(t, err)
	conflict(t, a, "shared")
}

func TestHeldLeaseCostsNoRoundTrip(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	acquire(t, a, "f", "g").Done()
	before := s.Stats().Granted
	for range 100 {
		acquire(t, a, "g").Done()
		acquire(t, a, "f", "g").Done()
	}
	require.Equal(t, before, s.Stats().Granted)
	require.NoError(t, s.Close())
	acquire(t, a, "f").Done() // even without a server
}

func TestHoldClose(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob", waits(5*time.Second))
	one, two := acquire(t, a, "f"), acquire(t, a, "f")
	one.Done()
	one.Done() // twice is once
	require.Equal(t, []string{"f"}, heldPaths(s, "ann"))
	two.Done()
	acquire(t, b, "f")
}

func TestHoldDurationCountsFromTheLastDone(t *testing.T) {
	s := serve(t, socket(t))
	const hold = 150 * time.Millisecond
	a, b := join(t, s.Path, "ann", holds(Hold(hold))), join(t, s.Path, "bob", waits(10*time.Second))
	tk := acquire(t, a, "f")
	time.Sleep(2 * hold)
	require.Equal(t, []string{"f"}, heldPaths(s, "ann"), "an open handle has no end")
	tk.Done()
	time.Sleep(hold / 2)
	again := acquire(t, a, "f")
	last := time.Now()
	again.Done()
	acquire(t, b, "f")
	require.GreaterOrEqual(t, time.Since(last), hold-time.Millisecond)
	require.Zero(t, a.Held())
}

func TestHoldMerge(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, a, "idle").Done()
	open := acquire(t, a, "open")
	require.True(t, s.List(Filter{Path: "idle"})[0].Merge)
	s.ReleaseMerge("ann")
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 1 })
	require.True(t, open.Valid())
	open.Done()
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 })

	acquire(t, a, "idle").Done()
	a.cut()
	s.ReleaseMerge("ann") // may get lost with the connection, and is sent again
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 && a.Held() == 0 })
	soon(t, a.connected)

	acquire(t, a, "idle").Done()
	a.crash()
	soon(t, func() bool { return s.Stats().Stale >= 2 })
	s.ReleaseMerge("ann")
	require.Empty(t, heldPaths(s, "ann"))
}

func TestReleaseByHand(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, a, "f", "g").Done()
	open := acquire(t, a, "h")
	a.Release("f", "unknown")
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 2 })
	a.ReleaseAll()
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 1 })
	open.Done()
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 0 })
}

func TestReleaseIdleReleasesWhatNothingUses(t *testing.T) {
	s := serve(t, socket(t))
	busy := atomic.Bool{}
	busy.Store(true)
	a := join(t, s.Path, "ann", holds(Hold(time.Hour)), func(c *Client) { c.Busy = func(p string) bool { return p == "mapped" && busy.Load() } })
	acquire(t, a, "idle", "mapped", "other").Done()
	open := acquire(t, a, "open")
	a.HoldFor = func(string) Hold { return HoldMerge }
	acquire(t, a, "until-merge").Done()

	a.ReleaseIdle(func(p string) bool { return p != "other" })
	soon(t, func() bool {
		return slices.Equal(heldPaths(s, "ann"), []string{"mapped", "open", "other", "until-merge"})
	})
	require.True(t, open.Valid())
	open.Done()
	busy.Store(false)
	a.ReleaseIdle(func(p string) bool { return p != "other" })
	soon(t, func() bool { return slices.Equal(heldPaths(s, "ann"), []string{"other", "until-merge"}) })
	acquire(t, join(t, s.Path, "bob"), "idle", "open")
}

func TestWaiterGetsTheLeaseWhenItIsFree(t *testing.T) {
	s := serve(t, socket(t))
	var asked sync.Map
	a := join(t, s.Path, "ann", holds(HoldClose), func(c *Client) {
		c.OnWaiter = func(w Waiter) { asked.Store(w, true) }
	})
	b := join(t, s.Path, "bob", waits(10*time.Second))
	tk := acquire(t, a, "f")
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(context.Background(), Request{Paths: []string{"f"}, Op: "create"})
		got <- err
	}()
	soon(t, func() bool { _, ok := asked.Load(Waiter{Path: "f", Holder: "bob", Op: "create"}); return ok })
	require.Equal(t, []string{"bob"}, s.List(Filter{})[0].Waiters)
	tk.Done()
	require.NoError(t, <-got)
}

func TestWaitIsBounded(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	b := join(t, s.Path, "bob", func(c *Client) {
		c.WaitFor = func(p string) time.Duration {
			if p == "quick" {
				return 0
			}
			return 100 * time.Millisecond
		}
	})
	acquire(t, a, "quick", "slow")
	start := time.Now()
	conflict(t, b, "slow")
	require.GreaterOrEqual(t, time.Since(start), 100*time.Millisecond)
	conflict(t, b, "quick")
	require.Equal(t, 0, s.Stats().Waiters)
	require.EqualValues(t, 1, s.Stats().Waits, "a wait of zero does not queue")
}

func TestCanceledWaiterLeavesTheQueue(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob", waits(time.Minute))
	tk := acquire(t, a, "f")
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error, 1)
	go func() {
		_, err := b.Acquire(ctx, Request{Paths: []string{"f", "g"}})
		got <- err
	}()
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	cancel()
	require.ErrorIs(t, <-got, context.Canceled)
	soon(t, func() bool { return s.Stats().Waiters == 0 })
	tk.Done()
	soon(t, func() bool { return s.Stats().Leases == 0 })
	_, err := b.Acquire(ctx, Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, b.Held())
}

// A grant that comes after its request was cancelled is released.
func TestGrantAfterCancelIsGivenBack(t *testing.T) {
	s := serve(t, socket(t))
	c := join(t, s.Path, "ann", holds(HoldMerge))
	for range 200 {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Microsecond)
		if tk, err := c.Acquire(ctx, Request{Paths: []string{"f"}}); err == nil {
			tk.Done()
			c.Release("f")
		}
		cancel()
	}
	soon(t, func() bool { return s.Stats().Leases == 0 && c.Held() == 0 })
}

func TestBrokenLease(t *testing.T) {
	s := serve(t, socket(t))
	lost := make(chan []string, 10)
	a := join(t, s.Path, "ann", func(c *Client) {
		c.OnLost = func(paths []string, why string) {
			if why != "broken by user:0" {
				paths = []string{why}
			}
			lost <- paths
		}
	})
	b := join(t, s.Path, "bob")
	tk := acquire(t, a, "f")
	first := tk.Token()
	_, err := s.Break(ws, "f", "user:0", "")
	require.NoError(t, err)
	require.Equal(t, []string{"f"}, <-lost)
	require.False(t, tk.Valid())
	other := acquire(t, b, "f")
	require.Greater(t, other.Token(), first)
	conflict(t, a, "f")
	tk.Done()
	require.True(t, other.Valid())
	require.EqualValues(t, 1, s.Stats().Broken)
}

func TestShortLossOfTheConnectionLosesNothing(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann"), join(t, s.Path, "bob")
	tk := acquire(t, a, "f")
	for range 20 {
		a.cut()
		conflict(t, b, "f")
		acquire(t, a, "f").Done()
		acquire(t, a, "g").Done() // waits until connected again
	}
	require.True(t, tk.Valid())
	require.Equal(t, tk.Token(), s.List(Filter{Path: "f"})[0].Token)
}

func TestRestartedServerKnowsWhatWasReclaimed(t *testing.T) {
	path := socket(t)
	s := serve(t, path)
	a := join(t, path, "ann")
	b := join(t, path, "bob", waits(5*time.Second))
	tk := acquire(t, a, "f", "g")
	_, err := a.Acquire(t.Context(), Request{Trees: []string{"d"}, Mode: Read})
	require.NoError(t, err)
	before := s.List(Filter{})
	require.Len(t, before, 3)
	for range 3 {
		restart := time.Now()
		require.NoError(t, s.Close())
		s = serve(t, path, func(s *Server) { s.Grace = 5 * time.Second })
		s.Expect([]string{"ann", "bob"})
		free := acquire(t, b, "free") // waits for the end of the grace period
		require.Greater(t, free.Token(), tk.Token())
		after := s.List(Filter{Holder: "ann"})
		require.Len(t, after, 3)
		for i := range after {
			require.Equal(t, before[i].Token, after[i].Token)
			require.Equal(t, before[i].Mode, after[i].Mode)
			require.Equal(t, before[i].Tree, after[i].Tree)
			require.True(t, after[i].Since.Before(restart), "%v, and the server was restarted at %v", after[i].Since, restart)
		}
		b.Release("free")
		free.Done()
	}
	require.True(t, tk.Valid())
	require.GreaterOrEqual(t, s.Stats().Reclaimed, uint64(3))
	tk.Done()
}

func TestManyLeasesAreReclaimed(t *testing.T) {
	path := socket(t)
	s := serve(t, path)
	a := join(t, path, "ann", holds(Hold(time.Hour))) // on a busy machine this takes longer than the default hold
	const n = 5000
	long := string(make([]byte, 0))
	for range 200 {
		long += "é\x01"
	}
	for i := 0; i < n; i += 100 {
		var paths []string
		for j := range 100 {
			paths = append(paths, "dir/"+long+string(rune('a'+j%26))+string(rune(0x1000+i+j)))
		}
		acquire(t, a, paths...).Done()
	}
	require.Equal(t, n, s.Stats().Leases)
	require.NoError(t, s.Close())
	s = serve(t, path)
	soon(t, func() bool { return s.Stats().Leases == n })
	a.ReleaseAll()
	soon(t, func() bool { return s.Stats().Leases == 0 })
}

func TestUnreachableServerFailsClosedWithinTheBound(t *testing.T) {
	path := socket(t)
	quick := func(c *Client) { c.Bound = time.Second }
	a := enter(t, path, "ann", quick)
	start := time.Now()
	_, err := a.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.GreaterOrEqual(t, time.Since(start), time.Second)

	s := serve(t, path)
	soon(t, a.connected)
	acquire(t, a, "f")
	require.NoError(t, s.Close())
	acquire(t, a, "f")
	_, err = a.Acquire(t.Context(), Request{Paths: []string{"f", "g"}})
	require.ErrorIs(t, err, ErrUnavailable)
}

// A server that accepts and then sends nothing counts as unavailable.
func TestSilentServer(t *testing.T) {
	path := socket(t)
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, l.Close()) })
	a := enter(t, path, "ann", func(c *Client) { c.Bound = 100 * time.Millisecond })
	_, err = a.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
}

// A server that stands still in the middle: the request ends, the connection
// is given up after three pings, and leases are not used for longer than the
// stale timeout.
func TestFrozenServer(t *testing.T) {
	s := serve(t, socket(t))
	lost := make(chan string, 1)
	a := join(t, s.Path, "ann", func(c *Client) {
		c.Bound, c.Heartbeat, c.StaleTimeout = 2*time.Second, 100*time.Millisecond, time.Second
		c.OnLost = func(_ []string, why string) { lost <- why }
	})
	tk := acquire(t, a, "f")
	s.mu.Lock()
	_, err := a.Acquire(t.Context(), Request{Paths: []string{"g"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, "stale", <-lost)
	require.False(t, tk.Valid())
	_, err = a.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	s.mu.Unlock()
	soon(t, func() bool {
		tk, err := a.Acquire(t.Context(), Request{Paths: []string{"f"}})
		return err == nil && tk.Valid()
	})
	require.False(t, tk.Valid(), "what is lost stays lost")
}

// Feature: multi-agent-workspaces, Property 8: Stale Lock Cleanup
func TestCrashedAgentsLeasesAreFreedAfterTheStaleTimeout(t *testing.T) {
	const stale = 300 * time.Millisecond
	s := serve(t, socket(t), func(s *Server) { s.StaleTimeout = stale })
	a, b := join(t, s.Path, "ann", holds(HoldMerge)), join(t, s.Path, "bob", waits(10*time.Second))
	acquire(t, a, "f")
	start := time.Now() // the server sees the end of the connection before crash returns
	a.crash()
	acquire(t, b, "f")
	require.GreaterOrEqual(t, time.Since(start), stale)
	require.Empty(t, heldPaths(s, "ann"))
}

// The client must not trust its leases for longer than the server keeps them,
// whatever it was configured with.
func TestTheShorterStaleTimeoutCounts(t *testing.T) {
	path := socket(t)
	s := serve(t, path, func(s *Server) { s.StaleTimeout = 3 * time.Second })
	lost := make(chan []string, 1)
	a := join(t, path, "ann", func(c *Client) {
		c.Bound = time.Second
		c.OnLost = func(paths []string, _ string) { lost <- paths }
	})
	tk := acquire(t, a, "f", "g")
	time.Sleep(3500 * time.Millisecond)
	require.True(t, tk.Valid(), "pings keep it alive")
	start := time.Now()
	require.NoError(t, s.Close())
	acquire(t, a, "f").Done()
	require.Equal(t, []string{"f", "g"}, <-lost)
	require.Less(t, time.Since(start), DefaultStaleTimeout)
	require.False(t, tk.Valid())
	_, err := a.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
}

func TestByeFreesAtOnce(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(Hold(time.Hour))), join(t, s.Path, "bob")
	acquire(t, a, "f")
	require.NoError(t, a.Close())
	require.NoError(t, a.Close())
	acquire(t, b, "f")
	_, err := a.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.ErrorIs(t, err, ErrClosed)
}

func TestNewShimReplacesADeadOneAtOnce(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann"), join(t, s.Path, "bob")
	acquire(t, a, "f")
	a.crash()
	conflict(t, b, "f")
	again := join(t, s.Path, "ann")
	acquire(t, b, "f")
	conflict(t, again, "f")
}

func TestSecondLiveSessionOfAnAgentIsRefused(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	acquire(t, a, "f")
	imposter := enter(t, s.Path, "ann", func(c *Client) { c.Bound = 100 * time.Millisecond })
	_, err := imposter.Acquire(t.Context(), Request{Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrUnavailable)
	require.Equal(t, []string{"f"}, heldPaths(s, "ann"))
}

func TestDroppedAgentThatStillLivesStartsAgainWithNothing(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	tk := acquire(t, a, "f", "g")
	require.Equal(t, 2, s.DropAgent("ann"))
	soon(t, func() bool { return !tk.Valid() })
	require.Empty(t, heldPaths(s, "ann"))
	soon(t, a.connected)
	acquire(t, a, "h")
	require.Equal(t, []string{"h"}, heldPaths(s, "ann"))
}

func TestNamesThatAreNoText(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob")
	one, two := acquire(t, a, "x\xff"), acquire(t, a, "x\xfe")
	one.Done()
	soon(t, func() bool { return s.Stats().Leases == 1 })
	acquire(t, b, "x\xff")
	require.Equal(t, "x\xfe", conflict(t, b, "x\xfe").Path)
	require.True(t, two.Valid())
}

func manyPaths(n int) []string {
	many := make([]string, n)
	for i := range many {
		many[i] = fmt.Sprint("p", i)
	}
	return many
}

// More keys than a request may have are taken in several.
func TestMoreKeysThanARequestMayHave(t *testing.T) {
	s := serve(t, socket(t))
	a, b := join(t, s.Path, "ann", holds(HoldClose)), join(t, s.Path, "bob", holds(HoldClose))
	tk := acquire(t, a, manyPaths(2500)...)
	require.Equal(t, 2500, a.Held())
	require.True(t, tk.Valid())
	require.Equal(t, "p2499", conflict(t, b, "p2499").Path)
	conflict(t, b, append(manyPaths(3000), "q")...)
	tk.Done()
	soon(t, func() bool { return s.Stats().Leases == 0 })
	acquire(t, b, "p2499")
}

func TestMalformedRequestsAreRefusedByTheClient(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	for name, r := range map[string]Request{
		"no paths":    {},
		"absolute":    {Paths: []string{"/etc"}},
		"dot dot":     {Trees: []string{"a/../.."}},
		"NUL":         {Paths: []string{"a\x00"}},
		"odd mode":    {Paths: []string{"a"}, Mode: "append"},
		"one of many": {Paths: append(manyPaths(2000), "z/../a")},
		"long op":     {Paths: []string{"a"}, Op: string(make([]byte, 1000))},
	} {
		_, err := a.Acquire(t.Context(), r)
		require.ErrorIs(t, err, ErrInvalid, name)
	}
	require.Zero(t, a.Held())
	for name, change := range map[string]func(*Client){
		"no bound":         func(c *Client) { c.Bound = 0 },
		"no heartbeat":     func(c *Client) { c.Heartbeat = 0 },
		"no stale timeout": func(c *Client) { c.StaleTimeout = 0 },
	} {
		c := NewClient(s.Path, ws, "x")
		change(c)
		require.ErrorIs(t, c.Open(), ErrInvalid, name)
		require.NoError(t, c.Close())
	}
}

func TestTheLimitIsReportedToTheClient(t *testing.T) {
	s := serve(t, socket(t), func(s *Server) { s.MaxLeases, s.MaxWaiters = 2, 1 })
	a, b := join(t, s.Path, "ann"), join(t, s.Path, "bob", waits(5*time.Second))
	acquire(t, a, "1", "2")
	_, err := a.Acquire(t.Context(), Request{Paths: []string{"3"}})
	require.ErrorIs(t, err, ErrLimit)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := b.Acquire(ctx, Request{Paths: []string{"1"}})
		require.ErrorIs(t, err, context.Canceled)
	})
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	_, err = b.Acquire(ctx, Request{Paths: []string{"2"}})
	require.ErrorIs(t, err, ErrLimit)
	cancel()
	wg.Wait()
}

// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
func TestTwoHundredWaiters(t *testing.T) {
	s := serve(t, socket(t))
	first := join(t, s.Path, "first", holds(HoldClose))
	tk := acquire(t, first, "f")
	var inside, served atomic.Int32
	var wg sync.WaitGroup
	for i := range 200 {
		c := join(t, s.Path, "agent-"+string(rune('a'+i/26))+string(rune('a'+i%26)), holds(HoldClose), waits(time.Minute))
		wg.Go(func() {
			tk, err := c.Acquire(context.Background(), Request{Paths: []string{"f"}})
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside.Add(1); n != 1 {
				t.Errorf("%d holders at once", n)
			}
			served.Add(1)
			inside.Add(-1)
			tk.Done()
		})
	}
	soon(t, func() bool { return s.Stats().Waiters == 200 })
	tk.Done()
	wg.Wait()
	require.EqualValues(t, 200, served.Load())
}

func TestALeaseThatWasHeldAlreadyIsReleasedToo(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann", holds(HoldClose))
	first := acquire(t, a, "f", "g")
	second, err := a.Acquire(t.Context(), Request{Paths: []string{"f", "g"}})
	require.NoError(t, err)
	third, err := a.AcquireLocal(Request{Paths: []string{"f", "g"}})
	require.NoError(t, err)
	first.Done()
	second.Done()
	require.Len(t, heldPaths(s, "ann"), 2)
	third.Done()
	soon(t, func() bool { return s.Stats().Leases == 0 && a.Held() == 0 })
}

func TestOneAgentsManyProcesses(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann", holds(HoldClose))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			for range 100 {
				tk, err := a.Acquire(context.Background(), Request{Paths: []string{"f", "g"}})
				if err != nil || !tk.Valid() {
					t.Errorf("%v", err)
					return
				}
				tk.Done()
			}
		})
	}
	wg.Wait()
	soon(t, func() bool { return s.Stats().Leases == 0 && a.Held() == 0 })
}

func TestHoldersOfAPath(t *testing.T) {
	s := serve(t, socket(t))
	a := join(t, s.Path, "ann")
	b := join(t, s.Path, "bob", func(c *Client) { c.Bound = 2 * time.Second })
	_, err := a.Acquire(t.Context(), Request{Trees: []string{"d"}, Op: "rename"})
	require.NoError(t, err)
	ls, err := b.Holders(t.Context(), "d/x")
	require.NoError(t, err)
	require.Len(t, ls, 1)
	require.Equal(t, "ann", ls[0].Holder)
	require.Equal(t, "rename", ls[0].Op)
	ls, err = b.Holders(t.Context(), "e")
	require.NoError(t, err)
	require.Empty(t, ls)
	_, err = b.Holders(t.Context(), "../e")
	require.ErrorIs(t, err, ErrInvalid)
	ls, err = s.Holders(ws, "d")
	require.NoError(t, err)
	require.Len(t, ls, 1)
	require.NoError(t, s.Close())
	_, err = b.Holders(t.Context(), "e")
	require.ErrorIs(t, err, ErrUnavailable)
}

// What an old connection left unread must not be done after the session
// continued with another: a release from before would take what is held now.
func TestOldConnectionIsNotListenedTo(t *testing.T) {
	s := serve(t, socket(t))
	old := dial(t, s.Path).hello("ann")
	old.send(&message{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "f"}}})
	token := old.recv().Tokens[0]
	s.mu.Lock() // the server is slow: both connections have something for it to read
	old.send(&message{Type: msgRelease, Keys: []wireKey{{Path: "f"}}})
	time.Sleep(20 * time.Millisecond)
	c := s.byAgent["ann"]
	s.byAgent["ann"] = &conn{server: s, link: newLink(c.link.conn, "new")}
	s.mu.Unlock()
	old.requireEOF()
	require.Equal(t, token, s.List(Filter{Holder: "ann"})[0].Token)
}

func TestParseHold(t *testing.T) {
	for in, want := range map[string]Hold{"close": HoldClose, "merge": HoldMerge, "30s": Hold(30 * time.Second), "0s": HoldClose} {
		h, err := ParseHold(in)
		require.NoError(t, err)
		require.Equal(t, want, h)
	}
	require.Equal(t, "close merge 1m0s", HoldClose.String()+" "+HoldMerge.String()+" "+Hold(time.Minute).String())
	for _, in := range []string{"", "forever", "-1s", "30"} {
		_, err := ParseHold(in)
		require.Error(t, err, in)
	}
	require.False(t, errors.Is(ErrUnavailable, ErrClosed))
}
