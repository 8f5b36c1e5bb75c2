package agent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fakeWatch is a shim as its fields say.
type fakeWatch struct {
	stopped, silent, hung, waits     atomic.Bool
	dying                            atomic.Bool
	mute                             atomic.Bool  // it notes nothing
	age                              atomic.Int64 // of its heartbeat
	continued, pinged, looked, ended atomic.Int64
}

func (w *fakeWatch) Stopped(context.Context, *Agent) (bool, error) { return w.stopped.Load(), nil }
func (w *fakeWatch) Dying(context.Context, *Agent) (bool, error)   { return w.dying.Load(), nil }
func (w *fakeWatch) Continue(context.Context, *Agent) error        { w.continued.Add(1); return nil }
func (w *fakeWatch) Forget(*Agent)                                 {}

func (w *fakeWatch) Waiting(context.Context, *Agent) (int, error) {
	if w.waits.Load() {
		return 1, nil
	}
	return 0, nil
}

func (w *fakeWatch) Beat(*Agent) (time.Duration, bool) {
	return time.Duration(w.age.Load()), !w.mute.Load()
}

func (w *fakeWatch) Ping(context.Context, *Agent) error {
	w.pinged.Add(1)
	if w.silent.Load() {
		return errors.New("no answer")
	}
	return nil
}

func (w *fakeWatch) Statfs(context.Context, *Agent) error {
	w.looked.Add(1)
	if w.hung.Load() {
		return errors.New("no answer")
	}
	return nil
}

func (w *fakeWatch) End(context.Context, *Agent) error { w.ended.Add(1); return nil }

// TestOnlyAShimThatHangsIsEnded: what is slow, stopped for a moment or waited for
// by a question lives on.
func TestOnlyAShimThatHangsIsEnded(t *testing.T) {
	start := func(t *testing.T) (*fakeWatch, func(looks int)) {
		m := newLife(t.TempDir(), newKernel(), &memory{fakePorts: newFakePorts(3001, 9999), drops: map[string]int{}}).Manager
		t.Cleanup(m.Close)
		w := &fakeWatch{}
		m.Watch = w // set after Open: the looks are the test's
		a := &Agent{WS: &Workspace{}, up: true}
		h := &health{next: time.Now().Add(pingEvery - pingSoon - time.Millisecond)}
		return w, func(looks int) {
			for range looks {
				m.examine(a, h)
				require.Eventually(t, func() bool { m.mu.Lock(); defer m.mu.Unlock(); return !h.asking }, 30*time.Second, time.Millisecond)
			}
		}
	}
	t.Run("well", func(t *testing.T) {
		w, look := start(t)
		look(50)
		require.Zero(t, w.ended.Load()+w.continued.Load()+w.looked.Load())
	})
	t.Run("stopped for a while", func(t *testing.T) {
		w, look := start(t)
		for range 5 {
			w.stopped.Store(true)
			look(maxStops)
			w.stopped.Store(false)
			look(stoppedEvery)
		}
		require.Zero(t, w.ended.Load())
		require.Greater(t, w.continued.Load(), int64(5))
	})
	t.Run("stopped again and again", func(t *testing.T) {
		w, look := start(t)
		w.stopped.Store(true)
		look(maxStops + stoppedEvery + 5)
		require.EqualValues(t, 1, w.ended.Load())
	})
	t.Run("stopped while a request waits", func(t *testing.T) {
		w, look := start(t)
		look(1)
		w.stopped.Store(true)
		w.waits.Store(true)
		look(1)
		require.EqualValues(t, 1, w.continued.Load(), "it is continued at the next check")
	})
	t.Run("a question waits", func(t *testing.T) {
		w, look := start(t)
		w.waits.Store(true)
		look(50)
		require.Positive(t, w.looked.Load(), "it is pinged soon")
		require.Zero(t, w.ended.Load())
	})
	t.Run("its view hangs", func(t *testing.T) {
		w, look := start(t)
		w.waits.Store(true)
		w.hung.Store(true)
		look(20)
		require.EqualValues(t, 1, w.ended.Load())
		require.EqualValues(t, maxSilence, w.looked.Load())
	})
	t.Run("it hangs while nobody asks anything of it", func(t *testing.T) {
		w, look := start(t)
		look(1)
		require.Zero(t, w.pinged.Load(), "its heartbeat is enough")
		w.age.Store(int64(lateAfter + 1))
		w.silent.Store(true)
		look(1)
		require.EqualValues(t, 1, w.pinged.Load(), "it is pinged at once")
		look(20)
		require.EqualValues(t, 1, w.ended.Load())
	})
	t.Run("its heartbeat is late under load", func(t *testing.T) {
		w, look := start(t)
		w.age.Store(int64(time.Hour))
		look(50)
		require.Zero(t, w.ended.Load(), "it answers")
	})
	t.Run("an earlier version without a heartbeat", func(t *testing.T) {
		w, look := start(t)
		w.mute.Store(true)
		w.age.Store(int64(time.Hour))
		look(1)
		require.Zero(t, w.pinged.Load())
	})
	t.Run("it was killed and ends", func(t *testing.T) {
		w, look := start(t)
		for range 5 {
			w.dying.Store(true)
			look(maxDying)
			w.dying.Store(false)
			look(stoppedEvery)
		}
		require.Zero(t, w.ended.Load())
	})
	t.Run("it was killed and cannot end", func(t *testing.T) {
		w, look := start(t)
		w.dying.Store(true)
		w.waits.Store(true)
		look(maxDying + 5)
		require.EqualValues(t, 1, w.ended.Load())
		require.Zero(t, w.pinged.Load(), "nobody would answer")
	})
	t.Run("its control socket hangs", func(t *testing.T) {
		w, look := start(t)
		w.waits.Store(true)
		w.silent.Store(true)
		look(20)
		require.EqualValues(t, 1, w.ended.Load())
	})
}
