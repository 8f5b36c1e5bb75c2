package lockd

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/lockd/table"
)

// asked returns how many acquires the server has granted.
func asked(s *Server) uint64 { return s.Stats().Granted }

func TestAnAgentAloneInADirectoryAsksOnce(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, c, "src/a").Done()
	for i := range 500 {
		acquire(t, c, fmt.Sprintf("src/d%d/f%d", i%10, i)).Done()
	}
	require.Equal(t, uint64(1), asked(s))
	soon(t, func() bool { return s.Stats().Leases == 501 })
	ls := s.List(Filter{Path: "src/d3/f13"})
	require.Len(t, ls, 1)
	require.Equal(t, "ann", ls[0].Holder)
	require.Equal(t, "open-write", ls[0].Op)
	require.Equal(t, uint32(42), ls[0].Pid)
	require.True(t, ls[0].Merge)
	require.WithinDuration(t, time.Now(), ls[0].Since, 10*time.Second)
	c.ReleaseAll()
	soon(t, func() bool { return s.Stats().Leases == 0 })
}

// An untar of 3,000 files in 300 directories.
func TestManyDirectoriesAreFewRoundTrips(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(Hold(DefaultHold)))
	for d := range 300 {
		for f := range 10 {
			acquire(t, c, fmt.Sprintf("pkg/d%d/f%d", d, f)).Done()
		}
	}
	t.Logf("%d round trips for 3000 files", asked(s))
	require.Less(t, asked(s), uint64(3000*5/100))
}

func TestAnotherAgentHasTheDirectoryRecalled(t *testing.T) {
	s := serve(t, socket(t), lends)
	ann := join(t, s.Path, "ann", holds(HoldMerge))
	bob := join(t, s.Path, "bob", holds(HoldMerge))
	acquire(t, ann, "src/a").Done()
	mine := acquire(t, ann, "src/b")
	defer mine.Done()
	require.Equal(t, uint64(1), asked(s))

	// Refused at once for what is held, though it was not reported yet.
	ce := conflict(t, bob, "src/b")
	require.Equal(t, "ann", ce.Holder)
	require.Equal(t, "src/b", ce.Lease)
	require.Equal(t, mine.Token(), ce.Token)
	// And served at once with what is not.
	theirs := acquire(t, bob, "src/c")
	defer theirs.Done()
	require.Greater(t, theirs.Token(), mine.Token())
	require.Equal(t, uint64(1), s.Stats().Recalled)

	// From now on ann sends requests, and no directory is delegated that two agents use.
	before := asked(s)
	acquire(t, ann, "src/d").Done()
	acquire(t, ann, "src/e").Done()
	require.Equal(t, before+2, asked(s))
	require.Zero(t, s.Stats().Delegations)
	require.True(t, mine.Valid())
	require.ElementsMatch(t, []string{"src/a", "src/b", "src/d", "src/e"}, heldPaths(s, "ann"))
}

func TestEverybodyElsesInterestRecalls(t *testing.T) {
	for name, want := range map[string]func(*Server, *Client) error{
		"a read lease": func(_ *Server, bob *Client) error {
			_, err := bob.Acquire(t.Context(), Request{Paths: []string{"src/held"}, Mode: Read})
			return err
		},
		"a tree above": func(_ *Server, bob *Client) error {
			_, err := bob.Acquire(t.Context(), Request{Trees: []string{"src"}})
			return err
		},
		"several paths": func(_ *Server, bob *Client) error {
			_, err := bob.Acquire(t.Context(), Request{Paths: []string{"other", "src/held"}})
			return err
		},
		"a person's lock": func(s *Server, _ *Client) error {
			_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"src/held"}})
			return err
		},
		"an agent's lock": func(_ *Server, bob *Client) error {
			return bob.Lock(t.Context(), Want{Trees: []string{"src"}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, socket(t), lends)
			ann := join(t, s.Path, "ann", holds(HoldMerge))
			bob := join(t, s.Path, "bob", holds(HoldMerge))
			acquire(t, ann, "src/sub/x").Done()
			acquire(t, ann, "src/sub2/x").Done()
			acquire(t, ann, "src/held").Done()
			var ce *ConflictError
			require.ErrorAs(t, want(s, bob), &ce)
			require.Equal(t, "ann", ce.Holder)
			require.Contains(t, []string{"src/held", "src/sub/x"}, ce.Lease)
		})
	}
}

func TestAWaiterIsServedWhenALocalLeaseEnds(t *testing.T) {
	s := serve(t, socket(t), lends)
	waiters := make(chan Waiter, 1)
	ann := join(t, s.Path, "ann", holds(HoldClose), func(c *Client) { c.OnWaiter = func(w Waiter) { waiters <- w } })
	bob := join(t, s.Path, "bob", holds(HoldClose), waits(time.Minute))
	acquire(t, ann, "src/a").Done()
	mine := acquire(t, ann, "src/b")
	got := make(chan *Ticket, 1)
	go func() {
		tk, err := bob.Acquire(context.Background(), Request{Paths: []string{"src/b"}, Op: "open-write"})
		if err == nil {
			got <- tk
		}
	}()
	w := <-waiters
	require.Equal(t, Waiter{Path: "src/b", Holder: "bob", Op: "open-write"}, w)
	require.Empty(t, got)
	mine.Done()
	tk := <-got
	require.Greater(t, tk.Token(), mine.Token())
	tk.Done()
}

// A short lease that no other holder wants is never reported.
func TestShortLocalLeasesSendNothing(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldClose))
	keep := acquire(t, c, "src/a")
	defer keep.Done()
	token := keep.Token()
	for range 900 {
		tk := acquire(t, c, "src/b")
		require.Greater(t, tk.Token(), token)
		token = tk.Token()
		tk.Done()
	}
	require.Equal(t, uint64(1), asked(s))
	require.Equal(t, []string{"src/a"}, heldPaths(s, "ann"))
}

// After its tokens the client requests more, and they still grow on every path.
func TestTokensGrowOverBlocksAndHolders(t *testing.T) {
	s := serve(t, socket(t), lends)
	ann := join(t, s.Path, "ann", holds(HoldClose), waits(5*time.Second))
	bob := join(t, s.Path, "bob", holds(HoldClose))
	keep := acquire(t, ann, "src/a")
	last := uint64(0)
	next := func(tk *Ticket) {
		require.Greater(t, tk.Token(), last)
		last = tk.Token()
		tk.Done()
	}
	for i := range 3000 {
		next(acquire(t, ann, "src/b"))
		if i%700 == 0 { // by the server, in the middle of a block
			tk, err := ann.Acquire(t.Context(), Request{Paths: []string{"elsewhere/x", "src/b"}})
			require.NoError(t, err)
			tk.Done()
			last = max(last, tk.Token())
		}
	}
	require.Less(t, asked(s), uint64(30))
	keep.Done()
	next(acquire(t, bob, "src/b"))
	next(acquire(t, ann, "src/b"))
}

func TestBreakOfALeaseThatTheServerDoesNotKnow(t *testing.T) {
	s := serve(t, socket(t), lends)
	lost := make(chan []string, 1)
	c := join(t, s.Path, "ann", holds(HoldMerge), func(c *Client) { c.OnLost = func(ps []string, _ string) { lost <- ps } })
	acquire(t, c, "src/a").Done()
	mine := acquire(t, c, "src/b")
	defer mine.Done()
	ls, err := s.Break(ws, "src/b", "user:0", "needed")
	require.NoError(t, err)
	require.Len(t, ls, 1)
	require.Equal(t, []string{"src/b"}, <-lost)
	require.False(t, mine.Valid())
	_, err = s.Break(ws, "src/unheld", "user:0", "")
	require.ErrorIs(t, err, ErrNotHeld)
}

func TestReconnectAndRestartReclaimWhatWasGrantedLocally(t *testing.T) {
	path := socket(t)
	s := serve(t, path, lends)
	c := join(t, path, "ann", holds(HoldMerge))
	acquire(t, c, "src/a").Done()
	mine := acquire(t, c, "src/b")
	defer mine.Done()
	c.cut()
	soon(t, func() bool { return c.connected() && len(heldPaths(s, "ann")) == 2 })
	require.Zero(t, s.Stats().Delegations)

	acquire(t, c, "src/c").Done()
	acquire(t, c, "src/d").Done()
	require.Equal(t, 1, s.Stats().Delegations)
	require.NoError(t, s.Close())
	// Without a server what is delegated is still ours to decide about.
	acquire(t, c, "src/e").Done()
	s = serve(t, path, lends, func(s *Server) { s.Grace = time.Minute })
	s.Expect([]string{"ann"})
	soon(t, func() bool { return len(heldPaths(s, "ann")) == 5 })
	require.ElementsMatch(t, []string{"src/a", "src/b", "src/c", "src/d", "src/e"}, heldPaths(s, "ann"))
	require.True(t, mine.Valid())
	require.Zero(t, s.Stats().Delegations)
}

// A holder of a directory that has died keeps it as long as its leases.
func TestADeadHolderKeepsItsDirectoryUntilItIsStale(t *testing.T) {
	s := serve(t, socket(t), lends, func(s *Server) { s.StaleTimeout = 300 * time.Millisecond })
	ann := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, ann, "src/a").Done()
	acquire(t, ann, "src/b").Done()
	ann.crash()
	bob := join(t, s.Path, "bob", holds(HoldMerge), waits(20*time.Second))
	soon(t, func() bool { return !s.live("ann") })
	acquire(t, bob, "src/c").Done()
	known, _ := s.table.Session("ann")
	require.False(t, known)
}

func (s *Server) live(agent string) (live bool) {
	s.do(func(t *table.Table) { _, live = t.Session(agent) })
	return live
}

// A holder that does not answer is not passed over: the other gets a refusal
// within its bound, and the silent one's connection is ended.
func TestAHolderThatDoesNotAnswer(t *testing.T) {
	s := serve(t, socket(t), lends, func(s *Server) { s.StaleTimeout = 12 * time.Second })
	r := dial(t, s.Path)
	r.send(&message{Type: msgHello, Version: baseVersion, Speaks: protocolVersion, Agent: "ann", Workspace: ws, Session: "1", Secret: "2"})
	require.Equal(t, msgOK, r.recv().Type)
	r.send(&message{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "src/a"}}})
	require.Len(t, r.recv().Lent, 1)
	bob := join(t, s.Path, "bob")
	ce := conflict(t, bob, "src/b")
	require.Equal(t, "ann", ce.Holder)
	require.Equal(t, "src", ce.Lease)
	require.Equal(t, msgRecall, r.recv().Type)
	r.requireEOF()
	soon(t, func() bool { return !s.live("ann") })
	require.Equal(t, []string{"src/a"}, heldPaths(s, "ann"), "stale, but not yet over")
}

func TestAnOldClientGetsNoDelegation(t *testing.T) {
	s := serve(t, socket(t), lends)
	r := dial(t, s.Path)
	r.send(&message{Type: msgHello, Version: baseVersion, Speaks: lockVersion, Agent: "ann", Workspace: ws, Session: "1", Secret: "2"})
	require.Equal(t, msgOK, r.recv().Type)
	r.send(&message{Type: msgAcquire, ID: 1, Keys: []wireKey{{Path: "src/a"}}})
	require.Empty(t, r.recv().Lent)
	require.Zero(t, s.Stats().Delegations)
}

func TestLeasesAreBoundedWithDelegationsToo(t *testing.T) {
	s := serve(t, socket(t), lends, func(s *Server) { s.MaxLeases = 20 })
	c := join(t, s.Path, "ann", holds(HoldMerge))
	for i := range 20 {
		acquire(t, c, fmt.Sprint("src/", i)).Done()
	}
	_, err := c.Acquire(t.Context(), Request{Paths: []string{"src/20"}})
	require.ErrorIs(t, err, ErrLimit)
	require.Equal(t, 20, c.Held())
}

func TestMergeLeasesOutliveByeThoughTheyWereLocal(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, c, "src/a").Done()
	acquire(t, c, "src/b").Done()
	require.NoError(t, c.Close())
	require.Equal(t, []string{"src/a", "src/b"}, heldPaths(s, "ann"))
	s.ReleaseMerge("ann")
	require.Empty(t, heldPaths(s, "ann"))
}

func TestReleaseMergeAndDropReachLocalLeases(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldMerge))
	acquire(t, c, "src/a").Done()
	acquire(t, c, "src/b").Done()
	s.ReleaseMerge("ann")
	soon(t, func() bool { return c.Held() == 0 && s.Stats().Leases == 0 })
	mine := acquire(t, c, "src/c")
	s.DropAgent("ann")
	soon(t, func() bool { return !mine.Valid() && c.Held() == 0 && c.connected() })
	mine.Done()
	require.Zero(t, s.Stats().Delegations)
}

func TestAnIdleDirectoryIsReturnedUnasked(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(HoldMerge), func(c *Client) { c.Heartbeat = 20 * time.Millisecond })
	acquire(t, c, "src/a").Done()
	soon(t, func() bool { return s.Stats().Delegations == 0 })
	require.Equal(t, []string{"src/a"}, heldPaths(s, "ann"))
	require.Zero(t, s.Stats().Recalled)
}

// Many leases that end together are few messages.
func TestManyLeasesThatEndAreFewMessages(t *testing.T) {
	s := serve(t, socket(t), lends)
	c := join(t, s.Path, "ann", holds(Hold(time.Second)))
	for i := range 11_000 {
		acquire(t, c, fmt.Sprintf("d%d/f%d", i%100, i)).Done()
	}
	c.mu.Lock()
	before := c.link.sent
	c.mu.Unlock()
	soon(t, func() bool { return c.Held() == 0 && s.Stats().Leases == 0 })
	c.mu.Lock()
	n := c.link.sent - before
	c.mu.Unlock()
	t.Logf("%d messages for 11000 leases", n)
	require.Less(t, n, uint64(200))
}

// A lease that the server knows, was extended here and is released before the extension was
// reported: without a message to the server the path stays leased for others.
func TestALeaseExtendedLocallyAndReleasedAtOnceIsReleasedAtTheServer(t *testing.T) {
	s := serve(t, socket(t), lends)
	ann := join(t, s.Path, "ann", holds(HoldClose))
	bob := join(t, s.Path, "bob", holds(HoldClose), waits(0))
	keep := acquire(t, ann, "src/other") // the directory is ann's from here on
	defer keep.Done()
	read, err := ann.Acquire(t.Context(), Request{Paths: []string{"src/a"}, Mode: Read})
	require.NoError(t, err)
	soon(t, func() bool { return s.Stats().Leases == 2 }) // reported
	write := acquire(t, ann, "src/a")
	require.Equal(t, uint64(1), asked(s), "extended here")
	write.Done()
	read.Done()
	require.Equal(t, 1, ann.Held())
	soon(t, func() bool { return s.Stats().Leases == 1 })
	acquire(t, bob, "src/a").Done()
}
