package lockd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// step is one thing an agent does.
type step struct {
	paths, trees []string
	mode         Mode
	work         time.Duration // while holding
	cancel       time.Duration // gives up after this, 0: never
	crash        bool          // dies and comes back as a new shim
	stay         bool          // keeps the handle open to the end of the script
}

var stepGen = rapid.Custom(func(t *rapid.T) step {
	path := rapid.SampledFrom([]string{"a", "b", "d", "d/x", "d/x/y", "e"})
	s := step{
		paths: rapid.SliceOfN(path, 1, 2).Draw(t, "paths"),
		mode:  rapid.SampledFrom([]Mode{Write, Write, Read}).Draw(t, "mode"),
		work:  time.Duration(rapid.IntRange(0, 2000).Draw(t, "work")) * time.Microsecond,
		crash: rapid.IntRange(0, 9).Draw(t, "crash") == 0,
		stay:  rapid.IntRange(0, 9).Draw(t, "stay") == 0,
	}
	if rapid.IntRange(0, 3).Draw(t, "tree") == 0 {
		s.trees = []string{path.Draw(t, "root")}
	}
	if rapid.IntRange(0, 4).Draw(t, "impatient") == 0 {
		s.cancel = time.Duration(rapid.IntRange(1, 3000).Draw(t, "cancel")) * time.Microsecond
	}
	return s
})

// section is a stretch in which an agent believes it may write.
type section struct {
	agent string
	step  step
}

// witness sees all sections and reports two that must not be at once.
type witness struct {
	mu   sync.Mutex
	open []*section
	errs []error
}

func (w *witness) enter(s *section) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, o := range w.open {
		if o.agent != s.agent && (o.step.mode == Write || s.step.mode == Write) && meet(o.step, s.step) {
			w.errs = append(w.errs, fmt.Errorf("%s is in %+v and %s in %+v", o.agent, o.step, s.agent, s.step))
		}
	}
	w.open = append(w.open, s)
}

func (w *witness) leave(s *section) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.open = slices.DeleteFunc(w.open, func(o *section) bool { return o == s })
}

func (w *witness) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.errs = append(w.errs, err)
}

func meet(a, b step) bool {
	under := func(dirs []string, ps ...string) bool {
		for _, d := range dirs {
			for _, p := range ps {
				if p == d || len(p) > len(d) && p[:len(d)+1] == d+"/" {
					return true
				}
			}
		}
		return false
	}
	for _, p := range a.paths {
		if slices.Contains(b.paths, p) {
			return true
		}
	}
	return under(a.trees, slices.Concat(b.paths, b.trees)...) || under(b.trees, slices.Concat(a.paths, a.trees)...)
}

// agentRun is one agent with its present client.
type agentRun struct {
	name string
	path string
	hold Hold
	mu   sync.Mutex
	c    *Client
}

func (a *agentRun) start() error {
	c := NewClient(a.path, ws, a.name)
	c.HoldFor = func(string) Hold { return a.hold }
	c.WaitFor = func(string) time.Duration { return 10 * time.Millisecond }
	c.Bound = 5 * time.Second
	a.mu.Lock()
	a.c = c
	a.mu.Unlock()
	return c.Open()
}

func (a *agentRun) client() *Client {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.c
}

func (a *agentRun) run(w *witness, steps []step) {
	var open []func()
	end := func() {
		for _, fn := range open {
			fn()
		}
		open = nil
	}
	defer end()
	for _, s := range steps {
		if s.crash {
			for len(w.mine(a.name)) > 0 { // the dead are in no section
				w.leave(w.mine(a.name)[0])
			}
			open = nil
			a.client().crash()
			if err := a.start(); err != nil {
				w.fail(err)
				return
			}
			continue
		}
		ctx, cancel := context.Background(), func() {}
		if s.cancel > 0 {
			ctx, cancel = context.WithTimeout(ctx, s.cancel)
		}
		tk, err := a.client().Acquire(ctx, Request{Paths: s.paths, Trees: s.trees, Mode: s.mode, Op: "test"})
		cancel()
		var ce *ConflictError
		switch {
		case err == nil:
		case errors.As(err, &ce) && ce.Holder != a.name, errors.Is(err, context.DeadlineExceeded):
			continue
		default:
			w.fail(fmt.Errorf("%s: %+v: %w", a.name, s, err))
			return
		}
		sec := &section{a.name, s}
		w.enter(sec)
		if s.stay {
			open = append(open, func() { w.leave(sec); tk.Done() })
			continue
		}
		time.Sleep(s.work)
		w.leave(sec)
		if !tk.Valid() {
			w.fail(fmt.Errorf("%s lost %+v", a.name, s))
		}
		tk.Done()
	}
}

func (w *witness) mine(agent string) []*section {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []*section
	for _, s := range w.open {
		if s.agent == agent {
			out = append(out, s)
		}
	}
	return out
}

// Feature: multi-agent-workspaces, Property 6: Advisory Lock Mutual Exclusion
// Feature: multi-agent-workspaces, Property 7: Advisory Lock Release
//
// Over real sockets: agents that acquire, give up, crash and come back, while
// connections break and the server is restarted, never are in conflicting
// sections at once, lose nothing they hold, and leave nothing behind.
func TestPropertyAgentsOverSockets(t *testing.T) {
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprint(n))
		newServer := func(expect []string) *Server {
			s := New()
			s.Path, s.PeerUID = path, uint32(os.Getuid())
			if err := s.Open(); err != nil {
				t.Fatal(err)
			}
			s.Expect(expect)
			return s
		}
		names := []string{"ann", "bob", "cyd"}
		s := newServer(nil)
		w := &witness{}
		agents := make([]*agentRun, len(names))
		scripts := make([][]step, len(names))
		for i, name := range names {
			hold := Hold(rapid.SampledFrom([]int64{0, int64(time.Millisecond), int64(10 * time.Millisecond)}).Draw(t, "hold"))
			agents[i] = &agentRun{name: name, path: path, hold: hold}
			scripts[i] = rapid.SliceOfN(stepGen, 1, 12).Draw(t, "script of "+name)
		}
		faults := rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(t, "faults")

		var wg sync.WaitGroup
		for i, a := range agents {
			if err := a.start(); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() { a.run(w, scripts[i]) })
		}
		for _, f := range faults {
			time.Sleep(time.Duration(f) * time.Millisecond)
			if f < len(agents) {
				agents[f].client().cut()
				continue
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = newServer(names)
		}
		wg.Wait()
		for _, a := range agents {
			if err := a.client().Close(); err != nil {
				t.Fatal(err)
			}
		}
		// A crashed shim's successor may have said bye before it connected;
		// the session it would have replaced then is stale.
		for _, l := range s.List(Filter{}) {
			s.DropAgent(l.Holder)
		}
		left := s.Stats()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if left.Leases+left.Waiters != 0 {
			t.Fatalf("left behind: %+v", left)
		}
		for _, err := range w.errs {
			t.Error(err)
		}
	})
}
