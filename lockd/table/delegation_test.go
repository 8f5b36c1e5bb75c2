package table

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDelegationGoesToWhoIsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		before func(*Table)
		keys   []Key
		want   []string
	}{
		"the directory of the file":      {nil, keys(0, "a/b/f"), []string{"a/b"}},
		"the root of a file in it":       {nil, keys(0, "f"), []string{""}},
		"one for each directory":         {nil, keys(0, "a/f", "b/f"), []string{"a", ""}},
		"none for reading":               {nil, keys(0, "?a/f"), nil},
		"none for refs":                  {nil, []Key{{Path: RefKey("refs/heads/x"), Mode: Write}}, nil},
		"none beside another":            {func(tb *Table) { take(t, tb, "bob", "a/b/g") }, keys(0, "a/b/f"), nil},
		"none above another":             {func(tb *Table) { take(t, tb, "bob", "a/b/c/g") }, keys(0, "a/b/f"), nil},
		"none beside another's reading":  {func(tb *Table) { take(t, tb, "bob", "?a/b/g") }, keys(0, "a/b/f"), nil},
		"none under another's tree":      {func(tb *Table) { take(t, tb, "bob", "?a/") }, keys(0, "?a/b/f"), nil},
		"next to another's directory":    {func(tb *Table) { take(t, tb, "bob", "a/c/g") }, keys(0, "a/b/f"), []string{"a/b"}},
		"not up to where another is":     {func(tb *Table) { take(t, tb, "bob", "g") }, keys(0, "a/b/f", "a/c/f"), []string{"a/b", "a"}},
		"none while all refs are locked": {func(tb *Table) { take(t, tb, "bob", Exclusive) }, keys(0, "a/b/f"), nil},
		"none where another waits": {func(tb *Table) {
			take(t, tb, "cyd", "z")
			queue(t, tb, "bob", time.Minute, "a/b/g", "z")
		}, keys(0, "a/b/f"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			tb, _ := newTable()
			hello(t, tb, "ann", "bob", "cyd")
			if c.before != nil {
				c.before(tb)
			}
			res, err := tb.Acquire(Request{Workspace: ws, Holder: "ann", Session: "id-ann", Keys: c.keys})
			require.NoError(t, err)
			require.Zero(t, res.Wait)
			var got []string
			for _, d := range tb.Delegate("ann", "id-ann", c.keys) {
				got = append(got, d.Dir)
				require.Greater(t, d.Token, res.Leases[len(res.Leases)-1].Token)
			}
			require.Equal(t, c.want, got)
			check(t, tb)
		})
	}
}

func TestNoDelegationSoonAfterARecall(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "ann", "bob")
	take(t, tb, "ann", "a/b/f")
	ds := tb.Delegate("ann", "id-ann", keys(0, "a/b/f"))
	require.Len(t, ds, 1)
	id := queue(t, tb, "bob", 0, "a/b/g")
	require.Empty(t, tb.Delegate("ann", "id-ann", keys(0, "a/b/f")), "asked back")
	require.NoError(t, tb.Return("ann", "id-ann", ds))
	require.Equal(t, fmt.Sprintf("%d:granted", id), ends(tb))
	require.NoError(t, tb.Release(ws, "bob", "id-bob", "a/b/g"))
	require.Empty(t, tb.Delegate("ann", "id-ann", keys(0, "a/b/f")))
	require.Len(t, tb.Delegate("ann", "id-ann", keys(0, "a/x/f")), 1)
	c.advance(hotFor)
	require.Len(t, tb.Delegate("ann", "id-ann", keys(0, "a/b/f")), 1)
}

func TestRefusalWhileADirectoryIsNotReturned(t *testing.T) {
	tb, c := newTable()
	hello(t, tb, "ann", "bob")
	take(t, tb, "ann", "a/f")
	tb.Delegate("ann", "id-ann", keys(0, "a/f"))
	queue(t, tb, "bob", 0, "a/f") // only ann knows whether it still has that
	c.advance(tb.RecallWait)
	tb.Tick()
	es := tb.Effects()
	var ce *ConflictError
	require.ErrorAs(t, es[len(es)-1].Err, &ce)
	require.Equal(t, "ann", ce.Holder)
	require.Equal(t, "a/f", ce.Lease)
	c.advance(tb.StaleTimeout)
	tb.Tick()
	require.Equal(t, Overdue, tb.Effects()[0].Kind)
	tb.Tick()
	require.Empty(t, tb.Effects(), "reported once")
	require.Equal(t, 1, tb.Delegations(), "a session that is connected keeps what it has")
}

func TestReportIsChecked(t *testing.T) {
	tb, _ := newTable()
	hello(t, tb, "ann", "bob")
	take(t, tb, "ann", "a/f")
	d := tb.Delegate("ann", "id-ann", keys(0, "a/f"))[0]
	report := func(path string, token uint64) []string {
		refused, err := tb.Report("ann", "id-ann", []Grant{{Claim: Claim{Key: Key{Path: path, Mode: Write}, Token: token}}})
		require.NoError(t, err)
		return refused
	}
	require.Empty(t, report("a/g", d.Token))
	require.Equal(t, []string{"b/g"}, report("b/g", d.Token+1))
	require.Equal(t, []string{"a/h"}, report("a/h", d.Token-1))
	require.Equal(t, []string{"a/h"}, report("a/h", d.Last+1))
	require.Equal(t, []string{"ref:a/h"}, report("ref:a/h", d.Token+2))
	tb.MaxLeases = 2
	require.Equal(t, []string{"a/i"}, report("a/i", d.Token+3))
	check(t, tb)
	_, err := tb.Report("bob", "id-ann", nil)
	require.ErrorIs(t, err, ErrNoSession)
	_, err = tb.Report("ann", "id-ann", []Grant{{Claim: Claim{Key: Key{Path: "../x", Mode: Write}}}})
	require.ErrorIs(t, err, ErrInvalid)
}

// peer is a client as far as delegations matter, with what is on its way to
// the table and back.
type peer struct {
	name     string
	live     bool // connected
	cut      time.Time
	lent     map[string]*Delegation
	has      map[string]*local
	asking   map[string]bool
	out, in  []func()
	reclaims bool
	// unsure: the table, which may be another one, has not answered the claims.
	unsure bool
}

type local struct {
	key        Key
	token      uint64
	unreported bool
	reported   bool // the table has a lease on the path, perhaps a smaller one
}

// town is a table and its clients, with messages in between that take their time.
type town struct {
	t     *rapid.T
	tb    *Table
	now   time.Time
	peers map[string]*peer
	waits map[WaitID]func([]Lease, error)
	// The highest token used so far, by path: for anything, and for writing.
	top, written map[string]uint64
}

func newTown(t *rapid.T) *town {
	w := &town{t: t, now: time.Unix(1e6, 0), peers: map[string]*peer{}, top: map[string]uint64{}, written: map[string]uint64{}}
	w.start(1)
	for _, a := range agents[:3] {
		w.peers[a] = &peer{name: a, has: map[string]*local{}}
		w.connect(w.peers[a])
	}
	w.drain()
	return w
}

func (w *town) start(token uint64) {
	w.tb = New(token)
	w.tb.Now = func() time.Time { return w.now }
	w.waits = map[WaitID]func([]Lease, error){}
}

func (w *town) disconnect(p *peer) {
	if p.live {
		p.gone(w.now)
		w.tb.Disconnect(p.name, "s-"+p.name)
		w.settle()
	}
}

// gone is a connection that is lost, with all that was on its way.
func (p *peer) gone(now time.Time) {
	if !p.unsure {
		p.cut = now
	}
	p.live, p.unsure, p.out, p.in, p.asking = false, false, nil, nil, nil
}

// connect is attach of the client: it gives up its delegations and claims all.
func (w *town) connect(p *peer) {
	if p.live {
		return
	}
	w.expireBeliefs()
	_, err := w.tb.Hello(ws, p.name, "s-"+p.name, "secret")
	require.NoError(w.t, err)
	w.settle()
	p.unsure = true
	p.live, p.lent, p.asking, p.reclaims = true, map[string]*Delegation{}, map[string]bool{}, true
	var claims []Claim
	for _, path := range slices.Sorted(maps.Keys(p.has)) {
		p.has[path].unreported, p.has[path].reported = false, true
		claims = append(claims, Claim{Key: p.has[path].key, Token: p.has[path].token})
	}
	p.send(func() {
		tokens, err := w.tb.Reclaim(p.name, "s-"+p.name, claims)
		require.NoError(w.t, err)
		p.deliver(func() {
			for i, c := range claims {
				switch l := p.has[c.Path]; {
				case l == nil:
				case tokens[i] == 0:
					delete(p.has, c.Path)
				default:
					l.token = tokens[i]
					w.used(l)
				}
			}
		})
	})
	p.send(func() {
		require.NoError(w.t, w.tb.Reclaimed(p.name, "s-"+p.name))
		p.deliver(func() { p.reclaims, p.unsure = false, false })
	})
}

func (p *peer) send(fn func())    { p.out = append(p.out, fn) }
func (p *peer) deliver(fn func()) { p.in = append(p.in, fn) }

func (p *peer) delegated(path string) *Delegation {
	rel, file := Rel(path)
	for file {
		if d := p.lent[rel]; d != nil || rel == "" {
			return d
		}
		rel = parentOf(rel)
	}
	return nil
}

// hold notes a lease that the client has from now on.
func (w *town) hold(p *peer, k Key, token uint64, unreported bool) {
	l := p.has[k.Path]
	if l == nil {
		l = &local{key: Key{Path: k.Path, Mode: Read}}
		p.has[k.Path] = l
	}
	after := w.written[k.Path] // those who only read do not exclude each other
	if k.Mode == Write {
		after = w.top[k.Path]
	}
	if l.token != token && token <= after {
		w.t.Fatalf("%s got %q with token %d after %d", p.name, k.Path, token, after)
	}
	l.token = token
	l.reported = l.reported || !unreported
	l.unreported = unreported || l.unreported && l.key != (Key{Path: k.Path, Mode: k.Mode, Tree: k.Tree})
	l.key.Tree = l.key.Tree || k.Tree
	if k.Mode == Write {
		l.key.Mode = Write
	}
	w.used(l)
}

func (w *town) used(l *local) {
	w.top[l.key.Path] = max(w.top[l.key.Path], l.token)
	if l.key.Mode == Write {
		w.written[l.key.Path] = w.top[l.key.Path]
	}
}

func (l *local) covers(k Key) bool {
	return (l.key.Mode == Write || k.Mode == Read) && (l.key.Tree || !k.Tree)
}

// trusted is the client's own clock.
func (w *town) trusted(p *peer) bool {
	return p.live && !p.unsure || p.cut.Add(w.tb.StaleTimeout).After(w.now)
}

// ask is Acquire of the client for one key.
func (w *town) ask(p *peer, k Key) {
	if !w.trusted(p) {
		return
	}
	if l := p.has[k.Path]; l != nil && l.covers(k) {
		return
	}
	if d := p.delegated(k.Path); d != nil && d.Token <= d.Last {
		w.hold(p, k, d.Token, true)
		d.Token++
		return
	}
	if !p.live || p.reclaims || p.asking[k.Path] {
		return
	}
	p.asking[k.Path] = true
	answer := func(ls []Lease, lent []Delegation) {
		p.deliver(func() {
			delete(p.asking, k.Path)
			for _, l := range ls {
				w.hold(p, k, l.Token, false)
				if d := p.delegated(k.Path); d != nil {
					d.Token = max(d.Token, l.Token+1)
				}
			}
			for _, d := range lent {
				maps.DeleteFunc(p.lent, func(dir string, _ *Delegation) bool { return below(d.Dir, dir) })
				p.lent[d.Dir] = &d
			}
		})
	}
	p.send(func() {
		res, err := w.tb.Acquire(Request{Workspace: ws, Holder: p.name, Session: "s-" + p.name, Keys: []Key{k}})
		switch {
		case err != nil:
			answer(nil, nil)
		case res.Wait != 0:
			w.waits[res.Wait] = func(ls []Lease, _ error) { answer(ls, nil) }
		default:
			answer(res.Leases, w.tb.Delegate(p.name, "s-"+p.name, []Key{k}))
		}
	})
}

func (w *town) release(p *peer, path string) {
	l := p.has[path]
	if l == nil || p.asking[path] {
		return
	}
	delete(p.has, path)
	if l.reported && p.live {
		p.send(func() { require.NoError(w.t, w.tb.Release(ws, p.name, "s-"+p.name, path)) })
	}
}

func (w *town) report(p *peer) {
	var gs []Grant
	for _, path := range slices.Sorted(maps.Keys(p.has)) {
		if l := p.has[path]; l.unreported && p.live {
			l.unreported, l.reported = false, true
			gs = append(gs, Grant{Claim: Claim{Key: l.key, Token: l.token}})
		}
	}
	if gs != nil {
		p.send(func() {
			refused, err := w.tb.Report(p.name, "s-"+p.name, gs)
			require.NoError(w.t, err)
			require.Empty(w.t, refused)
		})
	}
}

func (w *town) giveBack(p *peer, d Delegation) {
	delete(p.lent, d.Dir)
	w.report(p)
	p.send(func() { require.NoError(w.t, w.tb.Return(p.name, "s-"+p.name, []Delegation{d})) })
}

func (w *town) settle() {
	for _, e := range w.tb.Effects() {
		p := w.peers[e.Holder]
		switch e.Kind {
		case Granted, Refused:
			fn := w.waits[e.Wait]
			require.NotNil(w.t, fn, "a wait that ended twice")
			delete(w.waits, e.Wait)
			if p == nil || p.live {
				fn(e.Leases, e.Err)
			}
		case Recall:
			if p.live {
				d := e.Delegation
				p.deliver(func() { w.giveBack(p, d) })
			}
		case Dropped:
			if p = w.peers[e.Lease.Holder]; p != nil && !e.Lease.Explicit && e.Why != WhyUnknown {
				delete(p.has, e.Lease.Path)
			}
		case SessionGone:
			if p != nil {
				clear(p.has)
			}
		case Overdue:
			w.disconnect(p)
		}
	}
}

// expireBeliefs has clients forget what they must no longer use.
func (w *town) expireBeliefs() {
	for _, p := range w.peers {
		if !p.live && !w.trusted(p) {
			clear(p.has)
			clear(p.lent)
		}
	}
}

func pop(q *[]func()) bool {
	if len(*q) == 0 {
		return false
	}
	fn := (*q)[0]
	*q = (*q)[1:]
	fn()
	return true
}

// drain delivers everything.
func (w *town) drain() {
	for more := true; more; {
		more = false
		for _, a := range agents[:3] {
			more = pop(&w.peers[a].out) || more
			w.settle()
			more = pop(&w.peers[a].in) || more
			w.settle()
		}
	}
}

// verify checks what the clients believe, independently of the table.
func (w *town) verify() {
	w.settle()
	check(w.t, w.tb)
	for _, a := range agents[:3] {
		for _, b := range agents[:3] {
			if a >= b || !w.trusted(w.peers[a]) || !w.trusted(w.peers[b]) {
				continue
			}
			for _, x := range w.peers[a].has {
				for _, y := range w.peers[b].has {
					if (x.key.Mode == Write || y.key.Mode == Write) &&
						touch(Lease{Path: x.key.Path, Tree: x.key.Tree}, Lease{Path: y.key.Path, Tree: y.key.Tree}) {
						w.t.Fatalf("%s has %+v and %s has %+v", a, *x, b, *y)
					}
				}
			}
		}
	}
}

// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
// Feature: multi-agent-workspaces, Property 7: Advisory Lock Release
//
// With directories delegated, every message between clients and table arbitrarily late, lost
// connections, restarts and a clock that jumps: no two clients believe to hold conflicting
// leases, tokens grow on every path from one holder to the next, no report is refused, and when
// all messages have arrived no request waits for a directory.
func TestPropertyMutualExclusionWithDelegations(t *testing.T) {
	lent, recalled := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := newTown(t)
		who := func(t *rapid.T) *peer { return w.peers[rapid.SampledFrom(agents[:3]).Draw(t, "agent")] }
		names := []string{"f", "a", "a/f", "a/g", "a/b/f", "a/b/g", "a/c/f", "e/f", "./ref:x", RefKey("refs/heads/x"), Exclusive}
		act := map[string]func(*rapid.T){
			"ask": func(t *rapid.T) {
				k := Key{
					Path: rapid.SampledFrom(names).Draw(t, "path"), Tree: rapid.IntRange(0, 4).Draw(t, "tree") == 0,
					Mode: rapid.SampledFrom([]Mode{Read, Write, Write, Write}).Draw(t, "mode"),
					Wait: time.Duration(rapid.SampledFrom([]int{0, 1, 60}).Draw(t, "wait")) * time.Second,
				}
				w.ask(who(t), k)
			},
			"release": func(t *rapid.T) { w.release(who(t), rapid.SampledFrom(names).Draw(t, "path")) },
			"report":  func(t *rapid.T) { w.report(who(t)) },
			"return idle": func(t *rapid.T) {
				p := who(t)
				if p.live {
					for _, dir := range slices.Sorted(maps.Keys(p.lent)) {
						w.giveBack(p, *p.lent[dir])
					}
				}
			},
			"to the table":  func(t *rapid.T) { pop(&who(t).out) },
			"to the client": func(t *rapid.T) { pop(&who(t).in) },
			"person": func(t *rapid.T) {
				res, err := w.tb.Acquire(Request{Workspace: ws, Holder: "user:0", Explicit: true, For: time.Second,
					Keys: []Key{{Path: rapid.SampledFrom(names).Draw(t, "path"), Mode: Write}}})
				if err == nil && res.Wait != 0 {
					w.waits[res.Wait] = func([]Lease, error) {}
				}
			},
			"break": func(t *rapid.T) {
				path := rapid.SampledFrom(names).Draw(t, "path")
				for _, p := range w.peers {
					if len(p.in) > 0 {
						return // a grant on its way would be believed for a moment
					}
				}
				if !w.tb.Recall(ws, path) {
					_, _ = w.tb.Break(ws, path) // often there is nothing to break
				}
			},
			"cut":     func(t *rapid.T) { w.disconnect(who(t)) },
			"connect": func(t *rapid.T) { w.connect(who(t)) },
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "seconds")) * time.Second)
				w.expireBeliefs()
				w.tb.Tick()
			},
			"restart": func(t *rapid.T) {
				last := w.tb.LastToken()
				var expect []string
				w.start(last)
				for _, a := range agents[:3] {
					p := w.peers[a]
					if p.live {
						p.gone(w.now)
					}
					if len(p.has)+len(p.lent) > 0 {
						expect = append(expect, a)
					}
				}
				w.tb.StartGrace(5 * time.Second)
				w.tb.Expect(expect)
			},
		}
		act["all messages"] = func(*rapid.T) { w.drain() }
		// Clients work more often than the world ends.
		names = append(names, "a/f", "a/g")
		often := []string{"ask", "ask", "ask", "ask", "ask", "release", "release", "to the table", "to the table", "to the client", "to the client", "connect"}
		steps := append(slices.Sorted(maps.Keys(act)), often...)
		for range rapid.IntRange(60, 200).Draw(t, "steps") {
			act[rapid.SampledFrom(steps).Draw(t, "step")](t)
			w.verify()
			lent += w.tb.Delegations()
			recalled += len(w.tb.recalls)
		}
		for _, a := range agents[:3] {
			w.connect(w.peers[a])
		}
		w.drain()
		w.verify()
		if len(w.tb.recalls) > 0 {
			t.Fatalf("%d directories are recalled and not returned", len(w.tb.recalls))
		}
	})
	t.Logf("%d delegations seen, %d of them asked back", lent, recalled)
	require.NotZero(t, lent)
	require.NotZero(t, recalled)
}
