package table

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhatConflicts(t *testing.T) {
	for _, tc := range []struct {
		held, wanted string
		conflict     bool
	}{
		{"a", "a", true},
		{"a", "b", false},
		{"a", "?a", true},
		{"?a", "a", true},
		{"?a", "?a", false},
		{"a/b", "a", false},
		{"a/b", "a/", true},
		{"a/", "a", true},
		{"a/", "a/b/c", true},
		{"a/", "ab", false},
		{"a/", "ab/", false},
		{"ab", "a/", false},
		{"a/b/", "a/", true},
		{"a/", "a/b/", true},
		{"a/b/", "a/c/", false},
		{"?a/", "?a/b", false},
		{"?a/", "a/b", true},
		{"a/b", "?a/", true},
		{"?a/b", "?a/", false},
		{"/", "x/y", true}, // "/" is the tree of the root here
		{"x/y", "/", true},
		{"/", "ref:refs/heads/main", false},
		{"/", Exclusive, false},
		{"ref:refs/heads/a", "ref:refs/heads/a", true},
		{"ref:refs/heads/a", "ref:refs/heads/b", false},
		{"ref:refs/heads/a", "refs/heads/a", false},
		{Exclusive, "ref:refs/heads/a", true},
		{"ref:refs/heads/a", Exclusive, true},
		{Exclusive, Exclusive, true},
		{Exclusive, "a", false},
		{Exclusive, "./" + Exclusive, false},
		{"ref:x", "./ref:x", false},
		{"./ref:x", "./ref:x", true},
	} {
		t.Run(tc.held+" then "+tc.wanted, func(t *testing.T) {
			tb, _ := newTable()
			hello(t, tb, "a", "b")
			take(t, tb, "a", tc.held)
			if tc.conflict {
				require.Equal(t, "a", refused(t, tb, "b", tc.wanted).Holder)
			} else {
				take(t, tb, "b", tc.wanted)
			}
			take(t, tb, "a", tc.held) // one's own is never in the way
			check(t, tb)
		})
	}
}

func TestOtherWorkspaceIsAnotherWorld(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	r := request("b", 0, "f")
	r.Workspace = "/srv/other"
	_, err := tb.Acquire(r)
	require.NoError(t, err)
}

func TestConflictNamesTheLease(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "b")
	res, err := tb.Acquire(Request{
		Workspace: ws, Holder: "user:1000", Explicit: true, Reason: "release", For: time.Hour, Op: "lock", Pid: 7,
		Keys: keys(0, "docs/"),
	})
	require.NoError(t, err)
	require.Equal(t, c.now().Add(time.Hour), res.Leases[0].Expires)
	ce := refused(t, tb, "b", "README", "docs/x/y")
	require.Equal(t, &ConflictError{
		Workspace: ws, Path: "docs/x/y", Lease: "docs", Holder: "user:1000", Since: c.now(), Reason: "release",
		Token: res.Leases[0].Token, Mode: Write, Tree: true, Op: "lock", Pid: 7,
		Until: Until{At: c.now().Add(time.Hour), Explicit: true},
	}, ce)
	for _, part := range []string{"docs/x/y", "user:1000", "release", `"docs"`} {
		require.Contains(t, ce.Error(), part)
	}
	require.Empty(t, tb.List(Filter{Path: "README"}), "nothing is taken of a refused set")
}

func TestSetsAreAllOrNothing(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b", "c")
	take(t, tb, "a", "m")
	id := queue(t, tb, "b", time.Second, "z", "m", "a")
	take(t, tb, "c", "z") // a waiter reserves nothing
	require.NoError(t, tb.Release(ws, "a", "id-a", "m"))
	require.Empty(t, ends(tb))
	require.Len(t, tb.List(Filter{Holder: "b"}), 0)
	require.NoError(t, tb.Release(ws, "c", "id-c", "z"))
	require.Equal(t, fmt.Sprintf("%d:granted", id), ends(tb))
	require.Len(t, tb.List(Filter{Holder: "b"}), 3)
	check(t, tb)
}

func TestGrantsComeInSortedOrderOncePerPath(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a")
	got := take(t, tb, "a", "c", "?a", "b/", "a", "b")
	require.Len(t, got, 3)
	require.Equal(t, []string{"a", "b", "c"}, []string{got[0].Path, got[1].Path, got[2].Path})
	require.Equal(t, Write, got[0].Mode)
	require.True(t, got[1].Tree)
	require.Less(t, got[0].Token, got[1].Token)
}

func TestUpgradeGetsANewToken(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	first := take(t, tb, "a", "?d")[0]
	take(t, tb, "b", "?d")
	refused(t, tb, "a", "d")
	require.NoError(t, tb.Release(ws, "b", "id-b", "d"))
	c.advance(time.Minute)
	second := take(t, tb, "a", "d")[0]
	require.Greater(t, second.Token, first.Token)
	require.Equal(t, first.Since, second.Since)
	require.Equal(t, second.Token, take(t, tb, "a", "?d")[0].Token, "asking for less changes nothing")
	third := take(t, tb, "a", "d/")[0]
	require.Greater(t, third.Token, second.Token)
	refused(t, tb, "b", "d/x")
	check(t, tb)
}

func TestQueueIsFair(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "h", "a", "b", "c")
	take(t, tb, "h", "f")
	want := ""
	for _, a := range []string{"a", "b", "c"} {
		id := queue(t, tb, a, time.Minute, "f")
		want += fmt.Sprintf("%d ", id)
	}
	order := ""
	holder := "h"
	for range 3 {
		require.NoError(t, tb.Release(ws, holder, "id-"+holder, "f"))
		for _, e := range tb.Effects() {
			if e.Kind == Granted {
				order += fmt.Sprintf("%d ", e.Wait)
				holder = e.Holder
			}
		}
		check(t, tb)
	}
	require.Equal(t, want, order)
}

func TestReadersDoNotStarveAWriter(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "r1", "w", "r2", "r3")
	take(t, tb, "r1", "?f")
	w := queue(t, tb, "w", time.Minute, "f")
	r2 := queue(t, tb, "r2", time.Second, "?f")
	take(t, tb, "r3", "?f") // who will not wait is not made to
	require.NoError(t, tb.Release(ws, "r3", "id-r3", "f"))
	require.Empty(t, ends(tb))
	c.advance(time.Second)
	tb.Tick()
	require.Equal(t, fmt.Sprintf("%d:granted", r2), ends(tb), "no request is refused for a lease that does not exist")
	require.NoError(t, tb.Release(ws, "r2", "id-r2", "f"))
	require.NoError(t, tb.Release(ws, "r1", "id-r1", "f"))
	require.Equal(t, fmt.Sprintf("%d:granted", w), ends(tb))
}

func TestHolderPassesThoseWhoWaitForIt(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "h", "w")
	take(t, tb, "h", "?f", "d/x")
	queue(t, tb, "w", time.Minute, "f", "d/")
	res, err := tb.Acquire(request("h", time.Minute, "f"))
	require.NoError(t, err)
	require.Len(t, res.Leases, 1, "an upgrade behind one's own waiter would never come")
	res, err = tb.Acquire(request("h", time.Minute, "d/y"))
	require.NoError(t, err)
	require.Len(t, res.Leases, 1)
	check(t, tb)
}

func TestWaitIsBounded(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	id := queue(t, tb, "b", 3*time.Second, "f")
	e := tb.Effects()
	require.Len(t, e, 1)
	require.Equal(t, Waiting, e[0].Kind)
	require.Equal(t, "a", e[0].Lease.Holder)
	require.Equal(t, "b", e[0].Request.Holder)
	require.Equal(t, []string{"b"}, tb.List(Filter{})[0].Waiters)

	next, ok := tb.Next()
	require.True(t, ok)
	require.Equal(t, c.now().Add(3*time.Second), next)
	c.advance(3*time.Second - 1)
	tb.Tick()
	require.Empty(t, ends(tb))
	c.advance(1)
	tb.Tick()
	e = tb.Effects()
	require.Len(t, e, 1)
	require.Equal(t, id, e[0].Wait)
	var ce *ConflictError
	require.ErrorAs(t, e[0].Err, &ce)
	_, ok = tb.Next()
	require.False(t, ok)
}

func TestShortestWaitOfTheBlockedKeysCounts(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "slow", "quick")
	r := request("b", time.Second, "slow", "free")
	r.Keys[1].Wait = 0
	res, err := tb.Acquire(r)
	require.NoError(t, err)
	require.NotZero(t, res.Wait, "free would refuse at once, but it is free")
	r = request("b", time.Second, "slow", "quick")
	r.Keys[1].Wait = 0
	_, err = tb.Acquire(r)
	require.ErrorAs(t, err, new(*ConflictError))
}

func TestCancelLeavesTheQueue(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b", "c")
	take(t, tb, "a", "?f")
	w := queue(t, tb, "b", time.Minute, "f")
	r := queue(t, tb, "c", time.Minute, "?f")
	tb.Effects()
	require.True(t, tb.Cancel(w))
	require.Equal(t, fmt.Sprintf("%d:refused %d:granted", w, r), ends(tb))
	require.False(t, tb.Cancel(w))
	check(t, tb)
}

func TestLimits(t *testing.T) {
	tb, _ := newTable()
	tb.MaxLeases, tb.MaxWaiters = 3, 2
	hello(t, tb, "a", "b")
	take(t, tb, "a", "1", "2")
	_, err := tb.Acquire(request("a", 0, "3", "4"))
	require.ErrorIs(t, err, ErrLimit)
	take(t, tb, "a", "1", "2", "3")
	queue(t, tb, "b", time.Minute, "1")
	queue(t, tb, "b", time.Minute, "2")
	_, err = tb.Acquire(request("b", time.Minute, "3"))
	require.ErrorIs(t, err, ErrLimit)
	hello(t, tb, "c")
	w := queue(t, tb, "c", time.Minute, "1") // b's waiting takes no other holder's place
	require.True(t, tb.Cancel(w))
	queue(t, tb, "c", time.Minute, "1")
	queue(t, tb, "c", time.Minute, "2")
	check(t, tb)
}

// An explicit lease that is renewed again and again ends when its time is over.
func TestAnExplicitLeaseIsNotRenewedForEver(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	lock := func(holder string, d, most time.Duration, spec string) {
		t.Helper()
		_, err := tb.Acquire(Request{Workspace: ws, Holder: holder, Explicit: true, For: d, Most: most, Keys: keys(0, spec)})
		require.NoError(t, err)
	}
	lock("a", 10*time.Minute, 10*time.Minute, "?f")
	for range 9 {
		c.advance(time.Minute)
		tb.Tick()
		lock("a", 10*time.Minute, 10*time.Minute, "?f")
		refused(t, tb, "b", "f")
	}
	c.advance(time.Minute)
	tb.Tick()
	take(t, tb, "b", "f")

	lock("a", 0, 0, "given") // by a person
	c.advance(time.Hour)
	lock("a", time.Minute, 10*time.Minute, "given")
	c.advance(24 * time.Hour)
	tb.Tick()
	refused(t, tb, "b", "given")
	check(t, tb)
}

// A holder that takes an explicit lease again as soon as its time is over, or that gives it
// back shortly before and takes it again, does not keep others out: it has to leave a pause.
func TestAnExplicitLeaseIsNotTakenAgainForEver(t *testing.T) {
	const most = 10 * time.Minute
	for name, again := range map[string]func(*Table){
		"it ends":          func(*Table) {},
		"it is given back": func(tb *Table) { _, _ = tb.Unlock(ws, "a", "d/f") },
	} {
		t.Run(name, func(t *testing.T) {
			tb, c := newTable()
			hello(t, tb, "a", "b")
			lock := func(holder, spec string) error {
				_, err := tb.Acquire(Request{Workspace: ws, Holder: holder, Explicit: true, For: most, Most: most, Keys: keys(0, spec)})
				return err
			}
			require.NoError(t, lock("a", "d/f"))
			for range 9 {
				c.advance(time.Minute)
				tb.Tick()
				again(tb)
				require.NoError(t, lock("a", "d/f"))
				refused(t, tb, "b", "d/f")
			}
			c.advance(time.Minute)
			tb.Tick()
			again(tb)
			for _, spec := range []string{"d/f", "d/"} {
				err := lock("a", spec)
				require.ErrorIs(t, err, ErrLimit, spec)
				require.ErrorContains(t, err, "for 10m0s", spec)
			}
			require.NoError(t, lock("a", "d/other"), "it is about one path")
			_, err := tb.Acquire(Request{Workspace: ws, Holder: "user:0", Explicit: true, Keys: keys(0, "d/f")})
			require.NoError(t, err, "a person, and everybody else, may have it")
			_, err = tb.Unlock(ws, "user:0", "d/f")
			require.NoError(t, err)
			c.advance(maxCoolDown)
			tb.Tick()
			require.NoError(t, lock("a", "d/f"), "after a pause")
			c.advance(9 * time.Minute)
			tb.Tick()
			refused(t, tb, "b", "d/f")
			check(t, tb)
			c.advance(time.Hour)
			tb.Tick()
			c.advance(time.Hour)
			tb.Tick()
			require.Empty(t, tb.spent, "what no longer counts is forgotten")
		})
	}
}

// One that is used for moments, again and again, is no reason for a pause.
func TestShortExplicitLeasesNeedNoPause(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a")
	for range 200 {
		_, err := tb.Acquire(Request{Workspace: ws, Holder: "a", Explicit: true, For: time.Second, Most: 10 * time.Minute, Keys: keys(0, "f")})
		require.NoError(t, err)
		c.advance(30 * time.Second)
		tb.Tick()
	}
	for range maxSpent + 1 {
		if _, err := tb.Acquire(Request{Workspace: ws, Holder: "a", Explicit: true, For: time.Hour, Most: 10 * time.Minute, Keys: keys(0, "f")}); err != nil {
			require.ErrorIs(t, err, ErrLimit)
			require.LessOrEqual(t, len(tb.spent["a"]), maxSpent)
			return
		}
		_, err := tb.Unlock(ws, "a", "f")
		require.NoError(t, err)
	}
	t.Fatal("what is remembered of one holder has no bound")
}

func TestExplicitLeases(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	lock := func(holder string, d time.Duration, specs ...string) (Result, error) {
		return tb.Acquire(Request{Workspace: ws, Holder: holder, Explicit: true, For: d, Keys: keys(0, specs...)})
	}
	_, err := lock("a", 0, "f")
	require.NoError(t, err)
	take(t, tb, "a", "f")
	require.NoError(t, tb.Release(ws, "a", "id-a", "f"))
	require.Equal(t, "a", refused(t, tb, "b", "f").Holder, "closing a file does not unlock what was locked by name")
	_, err = tb.Unlock(ws, "b", "f")
	require.ErrorIs(t, err, ErrNotHeld)
	_, err = tb.Unlock(ws, "a", "f")
	require.NoError(t, err)
	take(t, tb, "b", "f")

	_, err = lock("user:0", time.Minute, "?g")
	require.NoError(t, err)
	take(t, tb, "b", "?g")
	_, err = lock("user:0", time.Hour, "?g")
	require.NoError(t, err)
	c.advance(time.Minute)
	tb.Tick()
	refused(t, tb, "b", "g")
	c.advance(time.Hour)
	tb.Tick()
	take(t, tb, "b", "g")
	check(t, tb)
}

func TestBreak(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	id := queue(t, tb, "b", time.Minute, "f")
	tb.Effects()
	got, err := tb.Break(ws, "f")
	require.NoError(t, err)
	require.Equal(t, "a", got[0].Holder)
	e := tb.Effects()
	require.Equal(t, Dropped, e[0].Kind)
	require.Equal(t, WhyBroken, e[0].Why)
	require.Equal(t, id, e[1].Wait)
	_, err = tb.Break(ws, "nothing")
	require.ErrorIs(t, err, ErrNotHeld)
	_, err = tb.Break("/elsewhere", "f")
	require.ErrorIs(t, err, ErrNotHeld)
	check(t, tb)
}

func TestMalformedRequests(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a")
	long := strings.Repeat("x", MaxPath+1)
	for name, change := range map[string]func(*Request){
		"absolute path":      func(r *Request) { r.Keys[0].Path = "/etc/passwd" },
		"dot dot":            func(r *Request) { r.Keys[0].Path = "a/../b" },
		"dot":                func(r *Request) { r.Keys[0].Path = "./a" },
		"double slash":       func(r *Request) { r.Keys[0].Path = "a//b" },
		"trailing slash":     func(r *Request) { r.Keys[0].Path = "a/" },
		"NUL":                func(r *Request) { r.Keys[0].Path = "a\x00b" },
		"long path":          func(r *Request) { r.Keys[0].Path = long },
		"unknown repo lock":  func(r *Request) { r.Keys[0].Path = "repo:other" },
		"empty ref":          func(r *Request) { r.Keys[0].Path = "ref:" },
		"ref with dot dot":   func(r *Request) { r.Keys[0].Path = "ref:refs/../x" },
		"needless escape":    func(r *Request) { r.Keys[0].Path = "./plain" },
		"no keys":            func(r *Request) { r.Keys = nil },
		"too many keys":      func(r *Request) { r.Keys = make([]Key, MaxKeys+1) },
		"no mode":            func(r *Request) { r.Keys[0].Mode = "" },
		"odd mode":           func(r *Request) { r.Keys[0].Mode = "append" },
		"negative wait":      func(r *Request) { r.Keys[0].Wait = -1 },
		"negative duration":  func(r *Request) { r.For = -1 },
		"no workspace":       func(r *Request) { r.Workspace = "" },
		"long workspace":     func(r *Request) { r.Workspace = long },
		"long reason":        func(r *Request) { r.Reason = long },
		"no holder":          func(r *Request) { r.Holder = "" },
		"holder with spaces": func(r *Request) { r.Holder = "a b" },
		"holder with escape": func(r *Request) { r.Holder = "a\x1b[0m" },
	} {
		t.Run(name, func(t *testing.T) {
			r := request("a", 0, "f")
			change(&r)
			_, err := tb.Acquire(r)
			require.True(t, errors.Is(err, ErrInvalid), "%v", err)
			require.Zero(t, tb.leases)
			check(t, tb)
		})
	}
	for _, ok := range []string{"", "a..b", "...", "a/.b", "ref:refs/heads/x", Exclusive, "./ref:x", "./repo:exclusive", "a:b", "\xff"} {
		require.NoError(t, CheckPath(ok), "%q", ok)
	}
}

func TestFileNamesCannotTakeRefLocks(t *testing.T) {
	for _, name := range []string{Exclusive, "ref:refs/heads/main", "repo:x"} {
		require.NoError(t, CheckPath(FileKey(name)))
		require.False(t, placeOf(FileKey(name), false).refs)
		require.Equal(t, name, FilePath(FileKey(name)))
	}
	require.Equal(t, "src/main.go", FileKey("src/main.go"))
	require.True(t, placeOf(RefKey("refs/heads/main"), false).refs)
}

// FuzzCheckPath: what is accepted has one spelling only.
func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"", "a", "a/b", "../x", "ref:refs/heads/a", "repo:exclusive", "./ref:x", "a//b", "\xff/\x00"} {
		f.Add(s, "a")
	}
	f.Fuzz(func(t *testing.T, p, q string) {
		if CheckPath(p) != nil || CheckPath(q) != nil {
			return
		}
		a, b := placeOf(p, false), placeOf(q, false)
		if a == b && p != q {
			t.Fatalf("%q and %q are one place", p, q)
		}
		for more, rest := a.rel != "", a.rel; more; {
			var c string
			c, rest, more = strings.Cut(rest, "/")
			if c == "" || c == "." || c == ".." {
				t.Fatalf("%q was accepted", p)
			}
		}
	})
}

func TestUpgradeMustNotMeetAnything(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "b", "?d/x")
	take(t, tb, "a", "d")
	// The write lease on d and a read lease on the tree would be a write lease on the tree.
	refused(t, tb, "a", "?d/")
	check(t, tb)
}
