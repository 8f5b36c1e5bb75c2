package table

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHello(t *testing.T) {
	tb, _ := newTable()
	resumed, err := tb.Hello(ws, "a", "1", "s")
	require.NoError(t, err)
	require.False(t, resumed)
	resumed, err = tb.Hello(ws, "a", "1", "s")
	require.NoError(t, err)
	require.True(t, resumed)
	_, err = tb.Hello(ws, "a", "1", "guess")
	require.ErrorIs(t, err, ErrSessionExists)
	_, err = tb.Hello(ws, "a", "2", "s")
	require.ErrorIs(t, err, ErrSessionExists)
	for _, bad := range [][4]string{
		{ws, "", "1", "s"}, {ws, "user:0", "1", "s"}, {ws, "a b", "1", "s"}, {ws, "b", "", "s"}, {ws, "b", "1", ""}, {"", "b", "1", "s"},
	} {
		_, err = tb.Hello(bad[0], bad[1], bad[2], bad[3])
		require.ErrorIs(t, err, ErrInvalid, "%q", bad)
	}
}

func TestOnlyTheSessionsOwnerActs(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a")
	take(t, tb, "a", "f")
	r := request("a", 0, "g")
	r.Session = "other"
	_, err := tb.Acquire(r)
	require.ErrorIs(t, err, ErrNoSession)
	require.ErrorIs(t, tb.Release(ws, "a", "other", "f"), ErrNoSession)
	_, err = tb.Reclaim("a", "other", nil)
	require.ErrorIs(t, err, ErrNoSession)
	require.ErrorIs(t, tb.Reclaimed("a", "other"), ErrNoSession)
	tb.Bye("a", "other")
	tb.Disconnect("a", "other")
	require.Len(t, tb.List(Filter{}), 1)
}

// Feature: multi-agent-workspaces, Property 8: Stale Lock Cleanup
func TestLostSessionKeepsItsLeasesForStaleTimeout(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	tb.Disconnect("a", "id-a")
	_, err := tb.Acquire(request("a", 0, "g"))
	require.ErrorIs(t, err, ErrNoSession)
	c.advance(tb.StaleTimeout - 1)
	tb.Tick()
	refused(t, tb, "b", "f")
	c.advance(1)
	tb.Tick()
	take(t, tb, "b", "f")
	check(t, tb)
}

func TestConnectedSessionNeverExpires(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	c.advance(365 * 24 * time.Hour)
	tb.Tick()
	refused(t, tb, "b", "f")
}

func TestResumedSessionKeepsWhatItClaims(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "a", "b")
	l := take(t, tb, "a", "f", "unknown to the client")
	tb.Disconnect("a", "id-a")
	id := queue(t, tb, "b", time.Hour, "unknown to the client")
	c.advance(tb.StaleTimeout / 2)
	tb.Tick()
	tb.Effects()
	hello(t, tb, "a")
	tokens, err := tb.Reclaim("a", "id-a", []Claim{{Key: keys(0, "f")[0], Token: l[0].Token}})
	require.NoError(t, err)
	require.Equal(t, []uint64{l[0].Token}, tokens)
	require.NoError(t, tb.Reclaimed("a", "id-a"))
	require.Equal(t, fmt.Sprintf("%d:granted", id), ends(tb))
	c.advance(time.Hour)
	tb.Tick()
	refused(t, tb, "b", "f")
	check(t, tb)
}

func TestNewSessionReplacesALostOne(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	take(t, tb, "a", "f")
	tb.Disconnect("a", "id-a")
	resumed, err := tb.Hello(ws, "a", "new shim", "s")
	require.NoError(t, err)
	require.False(t, resumed)
	take(t, tb, "b", "f")
	check(t, tb)
}

func TestDropAgentTakesEverything(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b", "c")
	take(t, tb, "a", "f")
	_, err := tb.Acquire(Request{Workspace: ws, Holder: "a", Explicit: true, Keys: keys(0, "g")})
	require.NoError(t, err)
	take(t, tb, "c", "h")
	mine := queue(t, tb, "a", time.Minute, "h")
	other := queue(t, tb, "b", time.Minute, "f", "g")
	tb.Effects()
	require.Equal(t, 2, tb.DropAgent("a"))
	require.Equal(t, fmt.Sprintf("%d:refused %d:granted", mine, other), ends(tb))
	known, _ := tb.Session("a")
	require.False(t, known)
	require.Zero(t, tb.DropAgent("a"))
	check(t, tb)
}

func TestRestart(t *testing.T) {
	old, _ := newTable()
	hello(t, old, "a", "b")
	la, lb := take(t, old, "a", "f", "?s"), take(t, old, "b", "g", "?s")

	tb, c := newTable()
	tb.StartGrace(5 * time.Second)
	tb.Expect([]string{"a", "b"})
	hello(t, tb, "b", "x")
	id := queue(t, tb, "x", 10*time.Second, "f")
	free := queue(t, tb, "x", 10*time.Second, "free")
	claims := func(ls []Lease) (out []Claim) {
		for _, l := range ls {
			out = append(out, Claim{Key: Key{Path: l.Path, Mode: l.Mode}, Token: l.Token, Since: l.Since})
		}
		return out
	}
	_, err := tb.Reclaim("b", "id-b", claims(lb))
	require.NoError(t, err)
	require.NoError(t, tb.Reclaimed("b", "id-b"))
	c.advance(6 * time.Second)
	tb.Tick()
	require.True(t, tb.InGrace(), "a was expected and may still believe in its leases")
	require.Empty(t, ends(tb))

	hello(t, tb, "a")
	tokens, err := tb.Reclaim("a", "id-a", claims(la))
	require.NoError(t, err)
	require.Equal(t, []uint64{la[0].Token, la[1].Token}, tokens)
	require.NoError(t, tb.Reclaimed("a", "id-a"))
	require.False(t, tb.InGrace())
	require.Equal(t, fmt.Sprintf("%d:granted", free), ends(tb))
	check(t, tb)
	for _, l := range tb.List(Filter{}) {
		require.LessOrEqual(t, l.Token, tb.token)
	}
	require.Greater(t, take(t, tb, "x", "new")[0].Token, max(la[1].Token, lb[1].Token), "tokens grow over a restart")
	require.NoError(t, tb.Release(ws, "a", "id-a", "f"))
	require.Equal(t, fmt.Sprintf("%d:granted", id), ends(tb))
}

func TestGraceEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(*Table)
		after   time.Duration
	}{
		"at its time if Expect was not called":   {func(*Table) {}, 5 * time.Second},
		"at once if no session is expected":      {func(tb *Table) { tb.Expect(nil) }, 0},
		"at the stale timeout if one stays away": {func(tb *Table) { tb.Expect([]string{"z"}) }, 30 * time.Second},
		"when the one who stays away is dropped": {func(tb *Table) { tb.Expect([]string{"z"}); tb.DropAgent("z") }, 0},
		"when the one who stays away has ended":  {func(tb *Table) { tb.Expect([]string{"z"}); tb.Ended("z") }, 0},
		"not when another has ended":             {func(tb *Table) { tb.Expect([]string{"y", "z"}); tb.Ended("y") }, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			tb, c := newTable()
			tb.StartGrace(5 * time.Second)
			tc.prepare(tb)
			if tc.after > 0 {
				c.advance(tc.after - 1)
				tb.Tick()
				require.True(t, tb.InGrace())
				c.advance(1)
				tb.Tick()
			}
			require.False(t, tb.InGrace())
		})
	}
}

func TestRequestsWithoutPatienceWaitForGraceALittle(t *testing.T) {
	tb, c := newTable()
	tb.StartGrace(5 * time.Second)
	hello(t, tb, "a", "b", "c")
	id := queue(t, tb, "a", 0, "f")
	c.advance(tb.GraceWait)
	tb.Tick()
	e := tb.Effects()
	require.Equal(t, id, e[0].Wait)
	require.ErrorIs(t, e[0].Err, ErrGrace)

	c.advance(2 * time.Second)
	first, second := queue(t, tb, "b", 0, "f"), queue(t, tb, "c", 0, "f")
	c.advance(time.Second)
	tb.Tick()
	require.Equal(t, fmt.Sprintf("%d:granted %d:refused", first, second), ends(tb))
	check(t, tb)
}

func TestClaims(t *testing.T) {
	t.Run("of two in grace the higher token wins, in either order", func(t *testing.T) {
		for _, order := range [][2]string{{"a", "b"}, {"b", "a"}} {
			tb, _ := newTable()
			tb.StartGrace(time.Minute)
			hello(t, tb, "a", "b")
			token := map[string]uint64{"a": 10, "b": 20}
			for _, agent := range order {
				_, err := tb.Reclaim(agent, "id-"+agent, []Claim{{Key: keys(0, "f")[0], Token: token[agent]}})
				require.NoError(t, err)
			}
			got := tb.List(Filter{})
			require.Len(t, got, 1)
			require.Equal(t, "b", got[0].Holder)
			check(t, tb)
		}
	})
	t.Run("after grace a free path is granted again", func(t *testing.T) {
		tb, _ := newTable()
		hello(t, tb, "a", "b")
		last := take(t, tb, "b", "g")[0].Token
		tokens, err := tb.Reclaim("a", "id-a", []Claim{{Key: keys(0, "f")[0], Token: 1}, {Key: keys(0, "g")[0], Token: 2}})
		require.NoError(t, err)
		require.Greater(t, tokens[0], last)
		require.Zero(t, tokens[1], "another holder has it")
		check(t, tb)
	})
	t.Run("nonsense is not believed", func(t *testing.T) {
		tb, _ := newTable()
		tb.StartGrace(time.Minute)
		hello(t, tb, "a")
		tokens, err := tb.Reclaim("a", "id-a", []Claim{{Key: keys(0, "f")[0]}, {Key: keys(0, "g")[0], Token: 1 << 60}})
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 0}, tokens)
		_, err = tb.Reclaim("a", "id-a", []Claim{{Key: Key{Path: "../x", Mode: Write}, Token: 1}})
		require.ErrorIs(t, err, ErrInvalid)
	})
}

func TestRestoreOfPeoplesLocks(t *testing.T) {
	tb, c := newTable()
	good := Lease{Workspace: ws, Path: "f", Holder: "user:1", Mode: Read, Since: c.now(), Token: 9, Explicit: true, Reason: "r", Expires: c.now().Add(time.Minute)}
	require.True(t, tb.Restore(good))
	require.False(t, tb.Restore(good), "twice")
	got := tb.List(Filter{})
	good.Waiters = []string{}
	require.Equal(t, []Lease{good}, got)
	for name, change := range map[string]func(*Lease){
		"expired":      func(l *Lease) { l.Expires = c.now() },
		"not explicit": func(l *Lease) { l.Explicit = false },
		"malformed":    func(l *Lease) { l.Path = "/x" },
		"no token":     func(l *Lease) { l.Token = 0 },
		"conflicting":  func(l *Lease) { l.Path, l.Holder, l.Mode = "f", "user:2", Write },
	} {
		l := good
		l.Path = "other"
		change(&l)
		require.False(t, tb.Restore(l), name)
	}
	require.Greater(t, tb.token, uint64(8))
	c.advance(time.Minute)
	tb.Tick()
	require.Empty(t, tb.List(Filter{}))
	check(t, tb)
}

func TestDropMerging(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "a", "b")
	r := request("a", 0, "f", "g")
	r.Keys[0].Merge = true
	_, err := tb.Acquire(r)
	require.NoError(t, err)
	tb.DropMerging("a")
	take(t, tb, "b", "f")
	refused(t, tb, "b", "g")
}

// A claim that was under way when an administrator broke the lease does not undo that.
func TestALeaseThatWasBrokenIsNotReclaimed(t *testing.T) {
	for name, grace := range map[string]bool{"in a grace period": true, "later": false} {
		t.Run(name, func(t *testing.T) {
			tb, _ := newTable()
			hello(t, tb, "a")
			l := take(t, tb, "a", "f")
			claim := []Claim{{Key: Key{Path: "f", Mode: Write}, Token: l[0].Token}}
			if grace {
				tb.StartGrace(time.Minute)
				tb.Expect([]string{"a", "b"})
			}
			tb.Disconnect("a", "id-a")
			resumed, err := tb.Hello(ws, "a", "id-a", "secret-a")
			require.NoError(t, err)
			require.True(t, resumed)
			_, err = tb.Break(ws, "f")
			require.NoError(t, err)
			tokens, err := tb.Reclaim("a", "id-a", claim)
			require.NoError(t, err)
			require.Equal(t, []uint64{0}, tokens)
			require.Empty(t, tb.List(Filter{}))
			require.NoError(t, tb.Reclaimed("a", "id-a"))
			if !grace { // granted again, it can be claimed again
				l = take(t, tb, "a", "f")
				require.Greater(t, l[0].Token, claim[0].Token)
				tb.Disconnect("a", "id-a")
				_, err = tb.Hello(ws, "a", "id-a", "secret-a")
				require.NoError(t, err)
				tokens, err = tb.Reclaim("a", "id-a", []Claim{{Key: claim[0].Key, Token: l[0].Token}})
				require.NoError(t, err)
				require.Equal(t, []uint64{l[0].Token}, tokens)
			}
		})
	}
}
