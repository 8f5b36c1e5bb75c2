package table

import (
	"fmt"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The exploration visits every state that three agents and two files can get into, breadth first,
// not only those of a random walk. A state is reached by repeating its actions on a new table:
// that is slow enough to be simple, and a failure comes with the shortest path to it.

// trial is a table on which actions are done one after the other.
type trial struct {
	tb      *Table
	now     time.Time
	pending map[string]WaitID
	token   uint64
	ended   map[WaitID]int
}

const exploreWait, exploreStale = 2 * time.Second, 3 * time.Second

var explorers = []string{"a", "b", "c"}

func newTrial() *trial {
	x := &trial{tb: New(1), now: time.Unix(1e6, 0), pending: map[string]WaitID{}, ended: map[WaitID]int{}, token: 1}
	x.tb.Now = func() time.Time { return x.now }
	x.tb.StaleTimeout = exploreStale
	for _, a := range explorers {
		x.connect(a)
	}
	return x
}

func (x *trial) connect(agent string) {
	_, err := x.tb.Hello(ws, agent, "s"+agent, "secret")
	if err != nil {
		panic(err)
	}
	var claims []Claim
	for _, l := range x.tb.List(Filter{Holder: agent}) {
		claims = append(claims, Claim{Key: Key{Path: l.Path, Mode: l.Mode}, Token: l.Token, Since: l.Since})
	}
	if _, err := x.tb.Reclaim(agent, "s"+agent, claims); err != nil {
		panic(err)
	}
	if err := x.tb.Reclaimed(agent, "s"+agent); err != nil {
		panic(err)
	}
}

// do does one action and returns false if it is not possible here.
func (x *trial) do(action string) bool {
	verb, agent, arg := action[:1], action[1:2], action[2:]
	_, live := x.tb.Session(agent)
	_, waiting := x.pending[agent]
	switch verb {
	case "+": // acquire the paths of arg
		if !live || waiting {
			return false
		}
		res, err := x.tb.Acquire(Request{Workspace: ws, Holder: agent, Session: "s" + agent, Keys: keys(exploreWait, strings.Split(arg, ",")...)})
		if err != nil {
			return false
		}
		if res.Wait != 0 {
			x.pending[agent] = res.Wait
		}
	case "-": // release the path of arg
		if !live || len(x.tb.List(Filter{Holder: agent, Path: arg})) == 0 {
			return false
		}
		if err := x.tb.Release(ws, agent, "s"+agent, arg); err != nil {
			panic(err)
		}
	case "!": // the connection is lost, with what waited there
		if !live {
			return false
		}
		x.tb.Disconnect(agent, "s"+agent)
	case "?": // and is back
		if live {
			return false
		}
		x.connect(agent)
	case "*": // a second goes by
		x.now = x.now.Add(time.Second)
		x.tb.Tick()
	}
	x.settle()
	return true
}

func (x *trial) settle() {
	for _, e := range x.tb.Effects() {
		if e.Kind == Granted || e.Kind == Refused {
			x.ended[e.Wait]++
			if x.pending[e.Holder] == e.Wait {
				delete(x.pending, e.Holder)
			}
		}
	}
}

// state is everything that can matter later, but for tokens and absolute times.
func (x *trial) state() string {
	var b strings.Builder
	for _, a := range explorers {
		known, live := x.tb.Session(a)
		age := time.Duration(0)
		if known && !live {
			age = x.now.Sub(x.tb.sessions[a].lost)
		}
		fmt.Fprintf(&b, "%s:%v,%v,%v;", a, known, live, age)
	}
	for _, l := range x.tb.List(Filter{}) {
		fmt.Fprintf(&b, "%s=%s%s;", l.Path, l.Holder, l.Mode[:1])
	}
	if sp := x.tb.spaces[ws]; sp != nil {
		for _, w := range sp.queue {
			fmt.Fprintf(&b, "|%s%v%v", w.Holder, w.deadline.Sub(x.now), paths2(w.Keys))
		}
	}
	return b.String()
}

func paths2(ks []Key) (out []string) {
	for _, k := range ks {
		out = append(out, k.Path+string(k.Mode[:1]))
	}
	return out
}

func replay(way []string) *trial {
	x := newTrial()
	x.settle()
	for _, a := range way {
		x.do(a)
	}
	return x
}

// verify checks a state, and that from it every waiter is served as soon as the others release:
// no deadlock, no waiter that is never served.
func (x *trial) verify(t *testing.T, way []string) {
	fail := failing{t, way}
	check(fail, x.tb)
	last := x.tb.LastToken()
	if last < x.token {
		fail.Fatalf("tokens went back from %d to %d", x.token, last)
	}
	for id, n := range x.ended {
		if n != 1 {
			fail.Fatalf("wait %d ended %d times", id, n)
		}
	}
	for range 3 * len(explorers) {
		for _, a := range explorers {
			if _, waits := x.pending[a]; waits {
				continue
			}
			for _, l := range x.tb.List(Filter{Holder: a}) {
				if !x.do("-" + a + l.Path) {
					x.do("?" + a)
					x.do("-" + a + l.Path)
				}
			}
		}
	}
	// A holder that itself waits for another holder lets go when its wait is over.
	for range 4 {
		if len(x.pending) == 0 {
			break
		}
		x.do("*a")
	}
	if len(x.pending) > 0 {
		fail.Fatalf("%d wait for ever", len(x.pending))
	}
}

// failing names the way to a state in every failure.
type failing struct {
	t   *testing.T
	way []string
}

func (f failing) Helper() { f.t.Helper() }
func (f failing) Fatalf(format string, args ...any) {
	f.t.Helper()
	f.t.Fatalf("after %s: %s", strings.Join(f.way, " "), fmt.Sprintf(format, args...))
}

// exploreDepth is the maximum number of actions on the way to a state, unless POLIS_EXPLORE_DEPTH
// is set: each more takes four times as long.
const exploreDepth = 5

// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
// Feature: multi-agent-workspaces, Property 7: Advisory Lock Release
// Feature: multi-agent-workspaces, Property 8: Stale Lock Cleanup
func TestEveryStateOfThreeAgentsAndTwoFiles(t *testing.T) {
	actions := []string{"*a"}
	for _, a := range explorers {
		for _, p := range []string{"x", "y", "x,y", "y,x", "?x"} {
			if p == "y,x" && a != "b" {
				continue // the table sorts; one agent that requests in the other order is enough
			}
			actions = append(actions, "+"+a+p)
		}
		actions = append(actions, "-"+a+"x", "-"+a+"y", "!"+a, "?"+a)
	}
	sort.Strings(actions)
	first := replay(nil)
	seen := map[string]bool{first.state(): true}
	level := [][]string{nil}
	most := exploreDepth
	if d := os.Getenv("POLIS_EXPLORE_DEPTH"); d != "" {
		var err error
		most, err = strconv.Atoi(d)
		require.NoError(t, err)
	}
	for depth := 1; depth <= most && len(level) > 0; depth++ {
		var next [][]string
		for _, way := range level {
			for _, a := range actions {
				x := replay(way)
				before := x.tb.LastToken()
				if !x.do(a) {
					continue
				}
				s := x.state()
				if seen[s] {
					continue
				}
				seen[s] = true
				longer := append(slices.Clone(way), a)
				x.token = before
				x.verify(t, longer)
				next = append(next, longer)
			}
		}
		level = next
	}
	t.Logf("%d states", len(seen))
	require.Greater(t, len(seen), 500)
}
