package table

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world drives a table the way clients, people and time do, and remembers
// what each client believes it holds.
type world struct {
	tb      *Table
	now     time.Time
	session map[string]string          // agent -> id of its live session, "" while crashed
	belief  map[string]map[string]held // agent -> path -> what it was granted
	waits   map[WaitID]string          // running waits and whose they are
	highest uint64                     // of all tokens ever granted
	n       int
}

type held struct {
	key   Key
	token uint64
}

var agents = []string{"ann", "bob", "cyd", "dan"}
var paths = []string{"", "a", "a/b", "a/b/c", "a/d", "e", "e/f", "ref:refs/heads/x", "ref:refs/heads/y", Exclusive, "./ref:x"}

func newWorld() *world {
	w := &world{now: time.Unix(1e6, 0), session: map[string]string{}, belief: map[string]map[string]held{}}
	w.restart()
	for _, a := range agents {
		w.belief[a] = map[string]held{}
	}
	return w
}

// restart is a polisd that was killed: a new table that knows nothing.
func (w *world) restart() {
	first := uint64(w.now.Unix())
	w.tb = New(max(first, 1))
	w.tb.Now = func() time.Time { return w.now }
	w.tb.MaxWaiters = 8
	w.waits = map[WaitID]string{}
	for a := range w.session {
		w.session[a] = ""
	}
}

func (w *world) keys(t *rapid.T) []Key {
	n := rapid.IntRange(1, 3).Draw(t, "keys")
	out := make([]Key, n)
	for i := range out {
		out[i] = Key{
			Path: rapid.SampledFrom(paths).Draw(t, "path"),
			Tree: rapid.Bool().Draw(t, "tree"),
			Mode: rapid.SampledFrom([]Mode{Read, Write, Write}).Draw(t, "mode"),
			Wait: time.Duration(rapid.SampledFrom([]int{0, 1, 3, 60}).Draw(t, "wait")) * time.Second,
		}
	}
	return out
}

func (w *world) agent(t *rapid.T) string { return rapid.SampledFrom(agents).Draw(t, "agent") }

// believe notes a grant to an agent's session.
func (w *world) believe(t *rapid.T, agent string, ls []Lease) {
	for _, l := range ls {
		if l.Token > w.highest {
			w.highest = l.Token
		} else if old, ok := w.belief[agent][l.Path]; !ok || old.token != l.Token {
			t.Fatalf("token %d of a new grant of %s is not above %d", l.Token, l.Path, w.highest)
		}
		w.belief[agent][l.Path] = held{Key{Path: l.Path, Tree: l.Tree, Mode: l.Mode}, l.Token}
	}
}

// settle carries out the table's effects, as the server would.
func (w *world) settle(t *rapid.T) {
	for _, e := range w.tb.Effects() {
		switch e.Kind {
		case Granted:
			if w.waits[e.Wait] == "" {
				t.Fatalf("wait %d ended twice or never began", e.Wait)
			}
			delete(w.waits, e.Wait)
			if !e.Request.Explicit {
				w.believe(t, e.Holder, e.Leases)
			} else {
				for _, l := range e.Leases {
					w.highest = max(w.highest, l.Token)
				}
			}
		case Refused:
			if w.waits[e.Wait] == "" {
				t.Fatalf("wait %d ended twice or never began", e.Wait)
			}
			delete(w.waits, e.Wait)
		case Dropped:
			if !e.Lease.Explicit {
				delete(w.belief[e.Lease.Holder], e.Lease.Path)
			}
		}
	}
}

func (w *world) check(t *rapid.T) {
	w.settle(t)
	check(t, w.tb)
	if len(w.waits) != len(w.tb.waiting) {
		t.Fatalf("%d waits run, the table knows %d", len(w.waits), len(w.tb.waiting))
	}
	// What a connected client believes is true.
	for agent, id := range w.session {
		if id == "" {
			continue
		}
		for path, h := range w.belief[agent] {
			ls := slices.DeleteFunc(w.tb.List(Filter{Holder: agent}), func(l Lease) bool { return l.Explicit || l.Path != path })
			if len(ls) != 1 || ls[0].Token != h.token {
				t.Fatalf("%s believes to hold %s with token %d, the table says %+v", agent, path, h.token, ls)
			}
		}
	}
}

// connect is a client that comes back with its session, or a new shim.
func (w *world) connect(t *rapid.T, agent string, fresh bool) {
	id := "s-" + agent
	if fresh {
		w.n++
		id = fmt.Sprintf("s-%s-%d", agent, w.n)
	}
	if _, err := w.tb.Hello(ws, agent, id, "secret"); err != nil {
		if w.session[agent] == "" {
			t.Fatalf("hello of %s: %v", agent, err)
		}
		return
	}
	w.settle(t)
	if fresh {
		w.belief[agent] = map[string]held{} // a new shim holds nothing
	}
	w.session[agent] = id
	var claims []Claim
	for _, h := range w.belief[agent] {
		claims = append(claims, Claim{Key: h.key, Token: h.token})
	}
	slices.SortFunc(claims, func(a, b Claim) int { return int(a.Token) - int(b.Token) })
	tokens, err := w.tb.Reclaim(agent, id, claims)
	if err != nil {
		t.Fatalf("reclaim of %s: %v", agent, err)
	}
	for i, c := range claims {
		if tokens[i] == 0 {
			delete(w.belief[agent], c.Path)
			continue
		}
		w.belief[agent][c.Path] = held{c.Key, tokens[i]}
		w.highest = max(w.highest, tokens[i])
	}
	w.settle(t)
	if err := w.tb.Reclaimed(agent, id); err != nil {
		t.Fatalf("reclaimed of %s: %v", agent, err)
	}
}

func (w *world) crash(agent string) {
	if id := w.session[agent]; id != "" {
		w.session[agent] = ""
		w.tb.Disconnect(agent, id)
	}
}

func (w *world) acquire(t *rapid.T, agent string, ks []Key) (bool, error) {
	res, err := w.tb.Acquire(Request{Workspace: ws, Holder: agent, Session: w.session[agent], Keys: ks})
	if err != nil {
		return false, err
	}
	if res.Wait != 0 {
		w.waits[res.Wait] = agent
		return false, nil
	}
	w.believe(t, agent, res.Leases)
	return true, nil
}

// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
//
// Whatever agents, people, crashes, restarts and the clock do, no two holders have conflicting
// leases, what a connected client believes to hold it holds, every new grant has a higher token
// than all before, and no request waits without a reason.
func TestPropertyMutualExclusion(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for _, a := range agents {
			w.connect(t, a, false)
		}
		t.Repeat(map[string]func(*rapid.T){
			"": w.check,
			"acquire": func(t *rapid.T) {
				a := w.agent(t)
				if w.session[a] == "" {
					t.Skip()
				}
				_, _ = w.acquire(t, a, w.keys(t)) // refusals are as good as grants here
			},
			"release": func(t *rapid.T) {
				a := w.agent(t)
				if w.session[a] == "" || len(w.belief[a]) == 0 {
					t.Skip()
				}
				var mine []string
				for p := range w.belief[a] {
					mine = append(mine, p)
				}
				slices.Sort(mine)
				p := rapid.SampledFrom(mine).Draw(t, "path")
				delete(w.belief[a], p)
				if err := w.tb.Release(ws, a, w.session[a], p); err != nil {
					t.Fatal(err)
				}
			},
			"cancel": func(t *rapid.T) {
				var ids []WaitID
				for id := range w.waits {
					ids = append(ids, id)
				}
				if len(ids) == 0 {
					t.Skip()
				}
				slices.Sort(ids)
				w.tb.Cancel(rapid.SampledFrom(ids).Draw(t, "wait"))
			},
			"person locks": func(t *rapid.T) {
				holder := rapid.SampledFrom([]string{"user:0", "user:1", "ann"}).Draw(t, "holder")
				res, err := w.tb.Acquire(Request{
					Workspace: ws, Holder: holder, Explicit: true, Keys: w.keys(t),
					For: time.Duration(rapid.IntRange(0, 60).Draw(t, "for")) * time.Second,
				})
				if err == nil && res.Wait != 0 {
					w.waits[res.Wait] = holder
				}
				for _, l := range res.Leases {
					w.highest = max(w.highest, l.Token)
				}
			},
			"person unlocks": func(t *rapid.T) {
				_, _ = w.tb.Unlock(ws, rapid.SampledFrom([]string{"user:0", "user:1", "ann"}).Draw(t, "holder"),
					rapid.SampledFrom(paths).Draw(t, "path")) // often there is nothing to unlock
			},
			"break": func(t *rapid.T) {
				_, _ = w.tb.Break(ws, rapid.SampledFrom(paths).Draw(t, "path")) // often there is nothing to break
			},
			"crash":   func(t *rapid.T) { w.crash(w.agent(t)) },
			"bye":     func(t *rapid.T) { a := w.agent(t); w.tb.Bye(a, w.session[a]); w.session[a] = "" },
			"drop":    func(t *rapid.T) { a := w.agent(t); w.tb.DropAgent(a); w.session[a] = "" },
			"connect": func(t *rapid.T) { w.connect(t, w.agent(t), rapid.Bool().Draw(t, "new shim")) },
			"time": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(-120, 120).Draw(t, "jump")) * time.Second)
				w.tb.Tick()
			},
			"restart": func(t *rapid.T) {
				live := []string{}
				for _, a := range agents {
					if w.session[a] != "" {
						live = append(live, a)
					} else {
						w.belief[a] = map[string]held{} // its client's own clock has run out, or it is dead
					}
				}
				w.now = w.now.Add(time.Second)
				w.restart()
				w.tb.StartGrace(5 * time.Second)
				if rapid.Bool().Draw(t, "expect") {
					w.tb.Expect(live)
				}
				w.highest = max(w.highest, w.tb.token)
				w.tb.token = w.highest // the base is the clock, which this test turns back
				for _, a := range live {
					if rapid.IntRange(0, 3).Draw(t, "back in time") > 0 {
						w.connect(t, a, false)
					} else {
						w.belief[a] = map[string]held{}
					}
				}
			},
		})
	})
}

// Feature: multi-agent-workspaces, Property 7: Advisory Lock Release
//
// After an agent has released what it held, no lease of it is left, and
// another agent gets exactly what was released.
func TestPropertyReleaseFreesThePath(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for _, a := range agents {
			w.connect(t, a, false)
		}
		var mine []string
		var last []Key
		for range rapid.IntRange(1, 5).Draw(t, "requests") {
			last = w.keys(t)
			if ok, err := w.acquire(t, "ann", last); !ok {
				t.Fatalf("no other holder exists, but: %v", err)
			}
			for _, k := range last {
				mine = append(mine, k.Path)
			}
		}
		waiting := make([]Key, len(last))
		for i, k := range last {
			waiting[i] = k
			waiting[i].Mode, waiting[i].Wait = Write, time.Minute
		}
		if ok, err := w.acquire(t, "bob", waiting); ok || err != nil {
			t.Fatalf("ann holds it, but bob got %v, %v", ok, err)
		}
		if err := w.tb.Release(ws, "ann", w.session["ann"], mine...); err != nil {
			t.Fatal(err)
		}
		w.belief["ann"] = map[string]held{}
		if ls := w.tb.List(Filter{Holder: "ann"}); len(ls) != 0 {
			t.Fatalf("left after release: %+v", ls)
		}
		w.check(t)
		if len(w.waits) != 0 || len(w.belief["bob"]) == 0 {
			t.Fatal("bob still waits for what is free")
		}
	})
}

// Feature: multi-agent-workspaces, Property 8: Stale Lock Cleanup
//
// Whatever an agent holds when it crashes is still its own right before
// 30 seconds are over, and free for another at 30 seconds.
func TestPropertyStaleCleanup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for _, a := range agents {
			w.connect(t, a, false)
		}
		ks := w.keys(t)
		for i := range ks {
			ks[i].Mode = Write
		}
		if ok, err := w.acquire(t, "ann", ks); !ok {
			t.Fatal(err)
		}
		w.crash("ann")
		for i := range ks {
			ks[i].Wait = time.Duration(rapid.IntRange(31, 90).Draw(t, "wait")) * time.Second
		}
		if ok, err := w.acquire(t, "bob", ks); ok || err != nil {
			t.Fatalf("a crashed agent's lease was granted at once: %v", err)
		}
		w.now = w.now.Add(30*time.Second - time.Duration(rapid.IntRange(1, int(30*time.Second)).Draw(t, "before")))
		w.tb.Tick()
		w.check(t)
		if len(w.belief["bob"]) != 0 {
			t.Fatal("granted before the stale timeout")
		}
		w.now = time.Unix(1e6, 0).Add(30 * time.Second)
		w.tb.Tick()
		w.check(t)
		if ls := w.tb.List(Filter{Holder: "ann"}); len(ls) != 0 || len(w.belief["bob"]) == 0 {
			t.Fatalf("after 30 s ann has %+v and bob %v", ls, w.belief["bob"])
		}
	})
}
