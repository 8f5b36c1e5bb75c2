package agent

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store"
)

// lastingShims are shims that outlived a daemon: with a status, events, and a
// note of the last one that was seen.
type lastingShims struct {
	fakeShims

	mu     sync.Mutex
	status wire.Status
	events []api.Event
	since  []uint64
	seen   uint64
	noted  bool
	added  []int
}

func (l *lastingShims) Dial(name string) Shim { return lastingShim{fakeShim{l.k, name}, l} }
func (l *lastingShims) LoadCursor(string) (uint64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seen, l.noted
}
func (l *lastingShims) SaveCursor(_ string, n uint64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seen, l.noted = n, true
	return nil
}

type lastingShim struct {
	fakeShim
	l *lastingShims
}

func (s lastingShim) Status(context.Context) (wire.Status, error) { return s.l.status, nil }
func (s lastingShim) AddPort(_ context.Context, r wire.PortRequest) error {
	s.l.mu.Lock()
	defer s.l.mu.Unlock()
	s.l.added = append(s.l.added, r.Internal)
	return nil
}
func (s lastingShim) Events(ctx context.Context, since uint64, f func(api.Event)) error {
	s.l.mu.Lock()
	s.l.since = append(s.l.since, since)
	s.l.mu.Unlock()
	for _, e := range s.l.events {
		if e.ID > since {
			f(e)
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// adopted restores an agent whose shim lived on, with what the shim says.
func adopted(t *testing.T, l *lastingShims) *world {
	w := newWorld(t.TempDir())
	t.Cleanup(w.Close)
	l.fakeShims = fakeShims{thing{w.k, "shim"}}
	w.Shims = l
	w.k.set("shim")["a1"] = true
	ws, err := w.Workspace("w")
	require.NoError(t, err)
	rep := &Report{}
	w.Restore(t.Context(), ws, []store.Agent{{Name: "a1", BaseType: "custom", Branch: "agent/a1", Status: api.StatusIdle}}, trees("a1"), rep)
	require.Empty(t, rep.Errors)
	require.Equal(t, []string{"a1"}, rep.Adopted)
	return w
}

func TestEventsContinueAfterTheLastSeenOne(t *testing.T) {
	event := func(id uint64) api.Event { return api.Event{ID: id, Type: api.EventDenied, Agent: "a1"} }
	for name, c := range map[string]struct {
		seen   uint64
		noted  bool
		since  uint64
		told   int
		missed bool
	}{
		"where the last daemon stopped":  {seen: 12, noted: true, since: 12, told: 2},
		"nothing new":                    {seen: 14, noted: true, since: 14},
		"nothing was seen yet":           {seen: 0, noted: true, since: 0, told: 4},
		"the ring was too small":         {seen: 5, noted: true, since: 5, told: 4, missed: true},
		"a daemon that did not note it":  {since: 14},
		"of a shim that lived before it": {seen: 1, noted: true, since: 1, told: 4, missed: true},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lastingShims{seen: c.seen, noted: c.noted, events: []api.Event{event(11), event(12), event(13), event(14)},
				status: wire.Status{Version: wire.Version, MinVersion: 1, LastEvent: 14, Listening: []int{8080}}}
			w := adopted(t, l)
			require.Equal(t, []int{8080}, l.added, "what was opened meanwhile is mapped")
			told := func() (n int, missed bool) {
				for _, e := range w.Events.Since(0) {
					switch e.Type {
					case api.EventDenied:
						n++
					case api.EventMissed:
						missed = true
					}
				}
				return n, missed
			}
			require.Eventually(t, func() bool {
				n, missed := told()
				l.mu.Lock()
				defer l.mu.Unlock()
				return len(l.since) == 1 && n == c.told && missed == c.missed && (c.told == 0 || l.seen == 14)
			}, 20*time.Second, time.Millisecond)
			require.Equal(t, c.since, l.since[0])
		})
	}
}

// endingShims had been stopped by a daemon that was killed: they do not
// answer any more, and are gone when they were asked twice.
type endingShims struct {
	fakeShims
	asked *int
}

func (e endingShims) Dial(name string) Shim { return endingShim{fakeShim{e.k, name}, e} }

type endingShim struct {
	fakeShim
	e endingShims
}

func (s endingShim) Status(ctx context.Context) (wire.Status, error) {
	s.k.mu.Lock()
	defer s.k.mu.Unlock()
	if *s.e.asked++; *s.e.asked > 2 {
		return wire.Status{Version: wire.Version}, nil // the next one
	}
	if *s.e.asked == 2 {
		delete(s.k.set("shim"), s.name)
	}
	return wire.Status{}, errInjected
}

// TestAShimThatEndsIsNotAwaited: neither reconciliation waits for its answer, nor do other agents
// for it to reclaim its leases.
func TestAShimThatEndsIsNotAwaited(t *testing.T) {
	for name, c := range map[string]struct {
		status api.Status
		broken error
		alive  bool
		asked  int
		drops  int
	}{
		"of an agent that was stopping":   {status: api.StatusStopped, alive: true, asked: 2, drops: 1},
		"of an agent that was up":         {status: api.StatusIdle, alive: true, asked: 2, drops: 1},
		"which is gone":                   {status: api.StatusStopped, drops: 1},
		"which is gone, and its files":    {status: api.StatusStopped, broken: errInjected, drops: 1},
		"of an unknown agent":             {alive: true, drops: 1},
		"of an agent that was being made": {status: api.StatusCreating, alive: true, drops: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t.TempDir())
			defer w.Close()
			asked := 0
			w.Shims = endingShims{fakeShims{thing{w.k, "shim"}}, &asked}
			w.k.set("shim")["a1"] = c.alive
			var kept []store.Agent
			var there []Tree
			if c.status != "" {
				kept = []store.Agent{{Name: "a1", BaseType: "custom", Branch: "agent/a1", Status: c.status}}
				there = []Tree{{Name: "a1", Broken: c.broken}}
			}
			ws, err := w.Workspace("w")
			require.NoError(t, err)
			rep := &Report{}
			w.Restore(t.Context(), ws, kept, there, rep)
			w.Sweep(t.Context(), rep)
			require.Empty(t, rep.Errors)
			require.Equal(t, c.drops, w.mem.drops["a1"], "%+v", rep)
			if c.asked > 0 {
				require.GreaterOrEqual(t, asked, c.asked)
				require.Less(t, asked, c.asked+3, "it was asked on although it had ended")
			}
		})
	}
}

func TestAShimOfAnUnknownVersionIsLeftAloneUntilStarted(t *testing.T) {
	l := &lastingShims{status: wire.Status{Version: wire.Version + 5, MinVersion: wire.Version + 4}}
	w := adopted(t, l)
	a, err := w.Get(t.Context(), "a1")
	require.NoError(t, err)
	require.Equal(t, api.StatusError, a.Status)
	require.Contains(t, a.StatusReason, "protocol version")
	require.True(t, w.k.set("shim")["a1"], "what runs in it continues")
	require.Empty(t, l.since, "it is not asked for events")

	l.status = wire.Status{Version: wire.Version}
	w.k.fail = "ensure shim" // only a new shim calls that
	_, err = w.Start(t.Context(), "a1", false)
	require.ErrorIs(t, err, errInjected)
	_, err = w.Start(t.Context(), "a1", false)
	require.NoError(t, err)
	require.Equal(t, 2, w.mem.drops["a1"], "the old one was ended, then the failed start undone")
}

// fullDisk is a state that cannot be saved while full is set.
type fullDisk struct {
	*memory
	full bool
}

func (f *fullDisk) Save(ws string, kept []store.Agent, removed []store.Removed) error {
	f.mu.Lock()
	full := f.full
	f.mu.Unlock()
	if full {
		return errors.New("no space left on device")
	}
	return f.memory.Save(ws, kept, removed)
}

func TestAStateThatCannotBeSavedRefusesChangesAndHealsByItself(t *testing.T) {
	w := newWorld(t.TempDir())
	defer w.Close()
	disk := &fullDisk{memory: w.mem}
	w.State = disk
	_, err := w.Add(t.Context(), api.AddRequest{Name: "a1", BaseType: "custom", AgentSpec: api.AgentSpec{Command: []string{"sleep"}}})
	require.NoError(t, err)
	set := func(full bool) { disk.mu.Lock(); disk.full = full; disk.mu.Unlock() }
	set(true)
	for name, change := range map[string]func() error{
		"add":     func() error { _, err := w.Add(t.Context(), api.AddRequest{Name: "b1", BaseType: "custom"}); return err },
		"start":   func() error { _, err := w.Start(t.Context(), "a1", false); return err },
		"run":     func() error { _, err := w.Run(t.Context(), "a1", api.RunRequest{Prompt: "x"}); return err },
		"remove":  func() error { _, err := w.Remove(t.Context(), "a1", true, false); return err },
		"discard": func() error { _, err := w.Discard(t.Context(), "a1", false); return err },
		"merge":   func() error { _, err := w.Merge(t.Context(), "a1", api.MergeRequest{}); return err },
		"set":     func() error { _, err := w.Set(t.Context(), "a1", api.SetRequest{MemoryMB: 64}); return err },
		"port":    func() error { _, err := w.MapPort(t.Context(), api.PortRequest{Agent: "a1", Internal: 80}); return err },
	} {
		require.Equal(t, api.CodeStateNotSaved, api.CodeOf(change()), name)
		w.check(t, map[string]api.Status{"a1": api.StatusIdle})
	}
	require.Len(t, w.Warnings(), 1)
	require.Contains(t, w.Warnings()[0], "STATE_NOT_SAVED: the state of workspace w cannot be written")
	_, err = w.Stop(t.Context(), "a1")
	require.NoError(t, err, "stopping is never refused")
	set(false)
	require.Eventually(t, func() bool {
		w.mem.mu.Lock()
		defer w.mem.mu.Unlock()
		return w.mem.kept[0].Status == api.StatusStopped
	}, 30*time.Second, 10*time.Millisecond)
	require.Eventually(t, func() bool { return len(w.Warnings()) == 0 }, 30*time.Second, time.Millisecond)
}
