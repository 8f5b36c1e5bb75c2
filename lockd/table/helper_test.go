package table

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const ws = "/srv/ws"

// clock is set by hand.
type clock struct{ t time.Time }

func (c *clock) now() time.Time          { return c.t }
func (c *clock) advance(d time.Duration) { c.t = c.t.Add(d) }

func newTable() (*Table, *clock) {
	c := &clock{t: time.Unix(1_000_000, 0)}
	t := New(0)
	t.Now = c.now
	return t, c
}

// hello opens sessions named after their agents.
func hello(t testing.TB, tb *Table, agents ...string) {
	t.Helper()
	for _, a := range agents {
		_, err := tb.Hello(ws, a, "id-"+a, "secret-"+a)
		require.NoError(t, err)
	}
}

// keys reads "a", "dir/" (a tree) and "?a" (a read lease).
func keys(wait time.Duration, specs ...string) []Key {
	var out []Key
	for _, s := range specs {
		k := Key{Mode: Write, Wait: wait}
		if r, ok := strings.CutPrefix(s, "?"); ok {
			s, k.Mode = r, Read
		}
		if r, ok := strings.CutSuffix(s, "/"); ok {
			s, k.Tree = r, true
		}
		k.Path = s
		out = append(out, k)
	}
	return out
}

func request(agent string, wait time.Duration, specs ...string) Request {
	return Request{Workspace: ws, Holder: agent, Session: "id-" + agent, Op: "open", Keys: keys(wait, specs...)}
}

// take must be granted at once.
func take(t testing.TB, tb *Table, agent string, specs ...string) []Lease {
	t.Helper()
	res, err := tb.Acquire(request(agent, 0, specs...))
	require.NoError(t, err)
	require.Zero(t, res.Wait)
	return res.Leases
}

// queue must wait.
func queue(t testing.TB, tb *Table, agent string, wait time.Duration, specs ...string) WaitID {
	t.Helper()
	res, err := tb.Acquire(request(agent, wait, specs...))
	require.NoError(t, err)
	require.NotZero(t, res.Wait)
	return res.Wait
}

// refused must fail with a conflict.
func refused(t testing.TB, tb *Table, agent string, specs ...string) *ConflictError {
	t.Helper()
	_, err := tb.Acquire(request(agent, 0, specs...))
	var ce *ConflictError
	require.ErrorAs(t, err, &ce)
	return ce
}

// ends returns how waits ended, as "1:granted 2:refused".
func ends(tb *Table) string {
	var out []string
	for _, e := range tb.Effects() {
		switch e.Kind {
		case Granted:
			out = append(out, fmt.Sprintf("%d:granted", e.Wait))
		case Refused:
			out = append(out, fmt.Sprintf("%d:refused", e.Wait))
		}
	}
	return strings.Join(out, " ")
}

// check asserts what must hold after every call.
func check(t interface {
	Helper()
	Fatalf(string, ...any)
}, tb *Table) {
	t.Helper()
	all := tb.List(Filter{})
	tokens := map[uint64]bool{}
	for i, a := range all {
		if tokens[a.Token] {
			t.Fatalf("token %d twice", a.Token)
		}
		tokens[a.Token] = true
		if a.Token > tb.token {
			t.Fatalf("token %d of %s is from the future", a.Token, a.Path)
		}
		for _, b := range all[i+1:] {
			if a.Workspace == b.Workspace && a.Holder != b.Holder && (a.Mode == Write || b.Mode == Write) && touch(a, b) {
				t.Fatalf("%s and %s both hold: %+v and %+v", a.Holder, b.Holder, a, b)
			}
		}
	}
	if len(all) != tb.leases {
		t.Fatalf("%d leases listed, %d counted", len(all), tb.leases)
	}
	for name, sp := range tb.spaces {
		for _, root := range []*node{&sp.files, &sp.refs} {
			checkNode(t, name, root)
		}
		queued := 0
		for i, w := range sp.queue {
			if tb.waiting[w.id] != w {
				t.Fatalf("waiter %d is queued but unknown", w.id)
			}
			queued++
			if !tb.grace.active && tb.blocked(sp, w) == nil && !tb.behind(sp, w, sp.queue[:i]) {
				t.Fatalf("waiter %d of %s waits for nothing", w.id, w.Holder)
			}
		}
		if queued == 0 && len(sp.files.children)+len(sp.files.leases)+len(sp.refs.children)+len(sp.refs.leases) == 0 {
			t.Fatalf("empty workspace %s is kept", name)
		}
	}
}

// checkNode recounts what the tree keeps as counters and returns the leases at and below n.
func checkNode(t interface {
	Helper()
	Fatalf(string, ...any)
}, path string, n *node) map[string]count {
	t.Helper()
	got := map[string]count{}
	for name, c := range n.children {
		if len(c.leases) == 0 && len(c.children) == 0 {
			t.Fatalf("empty node %s/%s is kept", path, name)
		}
		for h, k := range checkNode(t, path+"/"+name, c) {
			got[h] = count{got[h].read + k.read, got[h].write + k.write}
		}
	}
	if len(got) != len(n.below) {
		t.Fatalf("%s: below %v, counted %v", path, n.below, got)
	}
	for h, k := range got {
		if n.below[h] != k {
			t.Fatalf("%s: below %v, counted %v", path, n.below, got)
		}
	}
	for _, l := range n.leases {
		k := got[l.Holder]
		if l.Mode == Write {
			k.write++
		} else {
			k.read++
		}
		got[l.Holder] = k
	}
	return got
}

// touch is the rule in its plainest words, independent of the code under test.
func touch(a, b Lease) bool {
	isRef := func(p string) bool { return p == Exclusive || strings.HasPrefix(p, RefPrefix) }
	if isRef(a.Path) != isRef(b.Path) {
		return false
	}
	if a.Path == Exclusive || b.Path == Exclusive || a.Path == b.Path {
		return true
	}
	under := func(dir, p Lease) bool {
		return dir.Tree && (dir.Path == "" || strings.HasPrefix(p.Path, dir.Path+"/"))
	}
	return under(a, b) || under(b, a)
}
