package lockd

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// disk is what a Save writes to.
type disk struct {
	mu    sync.Mutex
	kept  Kept
	err   error
	saves int
}

func (d *disk) save(k Kept) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.saves++
	if d.err != nil {
		return d.err
	}
	d.kept = k
	return nil
}

func (d *disk) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.err = err
}

func (d *disk) read() Kept {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.kept
}

func (d *disk) use(s *Server) { s.Save, s.Kept = d.save, d.read() }

func lockFor(t testing.TB, s *Server, holder, reason string, d time.Duration, paths ...string) []Lease {
	t.Helper()
	ls, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: holder, Paths: paths, Reason: reason, For: d})
	require.NoError(t, err)
	return ls
}

func TestALockIsKeptWhenItIsGranted(t *testing.T) {
	path, d := socket(t), &disk{}
	s := serve(t, path, d.use)
	first := lockFor(t, s, "user:0", "mine", time.Hour, "f")[0]
	lockFor(t, s, "user:0", "short", time.Millisecond, "g")
	lockFor(t, s, "user:0", "", 0, "h")
	_, err := s.Unlock(ws, "user:0", "h")
	require.NoError(t, err)
	soon(t, func() bool { return len(d.read().Leases) == 1 })
	kept := d.read() // as kill -9 leaves it: Close has not run
	require.Greater(t, kept.Token, s.Stats().LastToken)
	require.NoError(t, s.Close())

	s = serve(t, path, func(s *Server) { s.Save, s.Kept = d.save, kept })
	again := s.List(Filter{})
	require.Len(t, again, 1)
	require.Equal(t, first.Token, again[0].Token)
	require.Equal(t, "mine", conflict(t, join(t, path, "ann"), "f").Reason)
	require.WithinDuration(t, first.Expires, again[0].Expires, time.Millisecond)
}

func TestTokensGrowOverARestartWithTheClockTurnedBack(t *testing.T) {
	path, d := socket(t), &disk{}
	s := serve(t, path, d.use)
	soon(t, func() bool { return d.read().Token > 0 })
	kept := d.read()
	last := lockFor(t, s, "user:0", "", 0, "f")[0].Token
	require.NoError(t, s.Close())
	s = serve(t, path, func(s *Server) {
		s.Kept = kept
		s.Now = func() time.Time { return time.Now().Add(-365 * 24 * time.Hour) }
	})
	require.Greater(t, lockFor(t, s, "user:0", "", 0, "g")[0].Token, last)
}

func TestALockThatCannotBeKeptIsRefused(t *testing.T) {
	d := &disk{}
	s := serve(t, socket(t), d.use)
	lockFor(t, s, "user:0", "", 0, "before")
	d.fail(errors.New("no space left on device"))
	_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:0", Paths: []string{"f"}})
	require.ErrorIs(t, err, ErrNotKept)
	require.ErrorContains(t, err, "no space left")
	require.Equal(t, []string{"before"}, heldPaths(s, "user:0"))
	_, err = s.Unlock(ws, "user:0", "before") // giving back needs no disk
	require.NoError(t, err)
	d.fail(nil)
	soon(t, func() bool { return len(d.read().Leases) == 0 })
	lockFor(t, s, "user:0", "", 0, "f") // healed
}

func TestManyChangesAreFewSaves(t *testing.T) {
	d := &disk{}
	s := serve(t, socket(t), d.use, func(s *Server) { s.Keep = func(l Lease) bool { return !strings.HasPrefix(l.Holder, "polisd:") } })
	c := join(t, s.Path, "ann")
	for i := range 2000 {
		acquire(t, c, fmt.Sprint("f", i)).Done()
	}
	lockFor(t, s, "polisd:git:1", "", 0, "ref:refs/heads/main")
	require.LessOrEqual(t, d.count(), 3)
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { lockFor(t, s, "user:0", "", 0, fmt.Sprint("e", i)) })
	}
	wg.Wait()
	require.Len(t, d.read().Leases, 200)
	require.Less(t, d.count(), 200)
}

func (d *disk) count() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.saves
}

func TestExplicitLocksAreBounded(t *testing.T) {
	s := serve(t, socket(t), func(s *Server) { s.MaxExplicit = 3 })
	lockFor(t, s, "user:0", "", 0, "a", "b", "c")
	_, err := s.Lock(t.Context(), LockRequest{Workspace: ws, Holder: "user:1", Paths: []string{"d"}})
	require.ErrorIs(t, err, ErrLimit)
	c := join(t, s.Path, "ann")
	require.ErrorIs(t, c.Lock(t.Context(), Want{Paths: []string{"d"}}), ErrLimit)
	acquire(t, c, "d") // writing continues
}

func TestAnAgentsOwnLocks(t *testing.T) {
	path, d := socket(t), &disk{}
	s := serve(t, path, d.use)
	ann, bob := join(t, path, "ann", holds(HoldClose)), join(t, path, "bob", waits(0))
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}, Reason: "plan", For: 5 * time.Minute}))
	require.Equal(t, "plan", conflict(t, bob, "f").Reason)
	acquire(t, ann, "f").Done()
	require.NotEmpty(t, s.List(Filter{Holder: "ann"}), "its own write does not end the lock")
	require.Equal(t, "plan", conflict(t, bob, "f").Reason)

	soon(t, func() bool { return len(d.read().Leases) == 1 })
	require.NoError(t, s.Close())
	s = serve(t, path, d.use)
	soon(t, ann.connected)
	soon(t, bob.connected)
	require.Equal(t, "plan", conflict(t, bob, "f").Reason)

	var ce *ConflictError
	require.ErrorAs(t, bob.Lock(t.Context(), Want{Paths: []string{"f"}}), &ce)
	require.ErrorIs(t, bob.Unlock(t.Context(), "f"), ErrNotHeld)
	require.NoError(t, ann.Unlock(t.Context(), "f"))
	require.NoError(t, bob.Lock(t.Context(), Want{Trees: []string{""}, Mode: Read}))
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}, Mode: Read}))
	require.ErrorAs(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}}), &ce)
	require.ErrorIs(t, ann.Lock(t.Context(), Want{Paths: []string{"\xff"}}), ErrInvalid)
	s.DropAgent("bob")
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}}))
}

func TestASoftLockChangesNothing(t *testing.T) {
	s := serve(t, socket(t))
	ann := join(t, s.Path, "ann")
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}, Reason: "mine"}))
	before := s.List(Filter{Path: "f"})[0]
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}, For: time.Second, Soft: true}))
	l := s.List(Filter{Path: "f"})[0]
	require.Equal(t, "mine", l.Reason)
	require.Equal(t, before.Expires, l.Expires)
}

// What an agent locks by name ends by itself, and it cannot lock everything.
func TestAnAgentsOwnLocksEndAndAreFew(t *testing.T) {
	s := serve(t, socket(t), func(s *Server) { s.MaxByName = 3 })
	ann, bob := join(t, s.Path, "ann"), join(t, s.Path, "bob", waits(time.Minute))
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}}))
	l := s.List(Filter{Path: "f"})[0]
	require.Equal(t, DefaultExplicitMax, l.Expires.Sub(l.Since))
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}, For: DefaultExplicitMax}))
	again := s.List(Filter{Path: "f"})[0]
	require.False(t, again.Expires.After(l.Expires), "asking again does not prolong it")
	require.ErrorIs(t, ann.Lock(t.Context(), Want{Paths: []string{"g"}, For: DefaultExplicitMax + time.Second}), ErrInvalid)
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"g"}, Mode: Read, For: 300 * time.Millisecond}))
	acquire(t, bob, "g") // a reader does not keep a writer out for ever
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"h"}, Mode: Read}))
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"i"}}))
	require.ErrorIs(t, ann.Lock(t.Context(), Want{Paths: []string{"j"}}), ErrLimit)
	require.NoError(t, bob.Lock(t.Context(), Want{Paths: []string{"j"}}))
	lockFor(t, s, "user:0", "", 0, "k") // people's have no end
	require.True(t, s.List(Filter{Path: "k"})[0].Expires.IsZero())
}

func TestALockNobodyWaitsForAnyMoreIsNotTaken(t *testing.T) {
	s := serve(t, socket(t))
	ann, bob := join(t, s.Path, "ann"), join(t, s.Path, "bob")
	require.NoError(t, ann.Lock(t.Context(), Want{Paths: []string{"f"}}))
	ended := make(chan error, 1)
	go func() { ended <- bob.Lock(t.Context(), Want{Paths: []string{"f"}, Wait: time.Minute}) }()
	soon(t, func() bool { return s.Stats().Waiters == 1 })
	own, total, err := ann.Own(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, total)
	require.Equal(t, "bob", own[0].Waiting[0].Holder)
	require.WithinDuration(t, time.Now(), own[0].Waiting[0].Since, time.Minute)
	bob.crash() // in the middle of its wait
	require.Error(t, <-ended)
	soon(t, func() bool { return s.Stats().Waiters == 0 })
	require.NoError(t, ann.Unlock(t.Context(), "f"))
	require.Empty(t, s.List(Filter{}))
}

func TestHolderHearsOfWaitersAndChanges(t *testing.T) {
	s := serve(t, socket(t))
	waiters := make(chan Waiter, 8)
	ann := enter(t, s.Path, "ann", func(c *Client) { c.OnWaiter = func(w Waiter) { waiters <- w } })
	soon(t, ann.connected)
	changed := func() { t.Helper(); <-ann.Changes() }
	changed()
	acquire(t, ann, "f")
	changed()
	bob := join(t, s.Path, "bob", waits(time.Minute))
	got := make(chan *Ticket)
	go func() {
		tk, err := bob.Acquire(t.Context(), Request{Paths: []string{"f"}, Op: "open"})
		if err == nil {
			got <- tk
		}
	}()
	require.Equal(t, Waiter{Path: "f", Holder: "bob", Op: "open"}, <-waiters)
	changed()
	_, err := s.Break(ws, "f", "user:7", "stuck")
	require.NoError(t, err)
	require.NotNil(t, <-got)
	changed()
	lockFor(t, s, "ann", "in its name", 0, "g")
	changed()
}

func TestWhatAnAgentLeavesUnmergedStaysItsOwn(t *testing.T) {
	path, d := socket(t), &disk{}
	s := serve(t, path, d.use)
	ann := enter(t, path, "ann", holds(HoldMerge))
	acquire(t, ann, "f").Done()
	require.NoError(t, ann.Close()) // agents stop
	s.DropAgent("ann")
	bob := join(t, path, "bob", waits(0))
	require.Equal(t, "ann", conflict(t, bob, "f").Holder)
	soon(t, func() bool { return len(d.read().Leases) == 1 })
	require.NoError(t, s.Close())
	s = serve(t, path, d.use)
	soon(t, bob.connected)
	require.Equal(t, "ann", conflict(t, bob, "f").Holder)
	ann = join(t, path, "ann", holds(HoldMerge)) // started again
	acquire(t, ann, "f").Done()
	s.ReleaseMerge("ann")
	soon(t, func() bool { return len(s.List(Filter{})) == 0 })
	acquire(t, bob, "f")
}

func TestBreakReportsWhoAndWhy(t *testing.T) {
	events := make(chan Event, 16)
	s := serve(t, socket(t), func(s *Server) { s.OnEvent = func(e Event) { events <- e } })
	lost := make(chan string, 1)
	ann := enter(t, s.Path, "ann", func(c *Client) { c.OnLost = func(_ []string, why string) { lost <- why } })
	soon(t, ann.connected)
	acquire(t, ann, "f")
	ls, err := s.Break(ws, "f", "user:7", "stuck")
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(ls, func(l Lease) bool { return l.Holder == "ann" }))
	require.Equal(t, "broken by user:7: stuck", <-lost)
	e := <-events
	require.Equal(t, EventBroken, e.Kind)
	require.Equal(t, "user:7", e.By)
	require.Equal(t, "stuck", e.Note)
	require.Equal(t, "ann", e.Holder)
}
