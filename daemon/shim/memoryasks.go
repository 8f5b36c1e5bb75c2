package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"polis/cgroup"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/rules/approval"
)

const (
	// memoryAskEvery is how often the memory of an agent that may ask for more is measured while it
	// runs and needs much.
	memoryAskEvery = time.Second
	// memoryAskPause is the least time between two measurements.
	memoryAskPause = 100 * time.Millisecond
)

// memoryAsks asks a person for more memory before the limit is reached. Without the setting nothing
// is measured. Below the soft limit the kernel watches, and nothing is measured either.
type memoryAsks struct {
	mu   sync.Mutex
	stop context.CancelFunc // of the present measurements; nil: there are none
}

// askMemory begins or ends the watch as the settings require. A change of the limit begins another
// one, and withdraws the question.
func (s *Shim) askMemory(v *wire.MemoryAsk, limit int64) {
	m := &s.memoryAsks
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
	if v == nil || s.sandbox == nil {
		return
	}
	ctx, cancel := context.WithCancel(s.ctx)
	m.stop = cancel
	s.group.Go(func() error {
		defer cancel()
		s.watchMemory(ctx, *v, limit)
		return nil
	})
}

// memoryAsk is where the question of one agent stands. It is pure.
type memoryAsk struct {
	wire.MemoryAsk
	open     bool
	answered int64 // the limit for which there was an answer; 0: none, ask again
}

// soft is the need, in bytes, at which the agent asks.
func (m *memoryAsk) soft(limit int64) int64 { return limit / 100 * int64(m.Percent) }

// rests reports whether nothing is to be done until the use passes the soft limit.
func (m *memoryAsk) rests(use, limit int64) bool {
	return !m.open && m.answered == 0 && use < m.soft(limit)
}

// next is what to do after a measurement: ask for a limit (want > 0), or withdraw the question.
func (m *memoryAsk) next(need, limit int64) (want int64, withdraw bool) {
	soft := m.soft(limit)
	switch {
	case limit <= 0:
		return 0, m.open
	case need < soft/10*9: // well below, so that a question does not come and go
		m.answered = 0
		return 0, m.open
	case need < soft || m.open || m.answered == limit:
		return 0, false
	}
	if want = min(limit+m.StepBytes, m.MaxBytes); want <= limit {
		return 0, false
	}
	return want, false
}

// watchMemory asks when it is due, until ctx or the sandbox ends. It measures after the kernel has
// reported that the soft limit was passed, then again and again until the use is below it.
func (s *Shim) watchMemory(ctx context.Context, v wire.MemoryAsk, limit int64) {
	if limit <= 0 || limit >= v.MaxBytes {
		return // there is nothing to ask for
	}
	m := memoryAsk{MemoryAsk: v}
	var watch softLimit
	defer func() { watch.set(s, false, 0) }()
	answered := make(chan struct{}, 1)
	question := struct{ withdraw context.CancelFunc }{func() {}}
	defer func() { question.withdraw() }()
	for {
		// While there is a question, or was an answer, v2 would only slow the agent down.
		watch.set(s, !m.open && m.answered == 0, m.soft(limit))
		use, need, err := s.memoryUse()
		if err != nil {
			s.Log.Debug("memory not measured", "err", err)
		} else {
			want, gone := m.next(int64(need), limit)
			if gone {
				question.withdraw()
			}
			if want > 0 {
				m.open, m.answered = true, limit
				question.withdraw() // it is over
				var asked context.Context
				asked, question.withdraw = context.WithCancel(ctx)
				s.group.Go(func() error {
					s.wantMemory(asked, int64(need), limit, want)
					answered <- struct{}{}
					return nil
				})
				continue
			}
		}
		switch s.memoryNews(ctx, answered, watch.passed(), err == nil && watch.on() && m.rests(int64(use), limit)) {
		case newsAnswer:
			m.open = false
		case newsEnd:
			return
		}
	}
}

// softLimit is the kernel's watch, if it has one.
type softLimit struct {
	watch  *cgroup.MemoryWatch
	failed bool
}

// set begins or ends the watch.
func (l *softLimit) set(s *Shim, on bool, soft int64) {
	switch {
	case on == l.on() || on && l.failed:
	case on:
		var err error
		if l.watch, err = s.sandbox.Group().WatchMemory(uint64(soft)); err != nil {
			l.failed = true
			s.Log.Warn("memory of the agent not watched by the kernel: it is measured while the agent runs", "err", err)
		}
	default:
		if err := l.watch.Close(); err != nil {
			s.Log.Warn("watch of the agent's memory not ended", "err", err)
		}
		l.watch = nil
	}
}

func (l *softLimit) on() bool { return l.watch != nil }

// passed is nil without a watch.
func (l *softLimit) passed() <-chan struct{} {
	if l.watch == nil {
		return nil
	}
	return l.watch.Passed()
}

// news is what ends a wait of [Shim.watchMemory].
type news int

const (
	newsEnd news = iota
	newsMeasure
	newsAnswer
)

// memoryNews waits for a reason to measure: the soft limit was passed, or, unless the agent rests,
// it has run and some time has passed.
func (s *Shim) memoryNews(ctx context.Context, answered, passed <-chan struct{}, rests bool) news {
	var timer <-chan time.Time // nil while the agent rests: an idle shim has no timer
	if !rests {
		t := time.NewTimer(memoryAskEvery)
		defer t.Stop()
		timer = t.C
	}
	var active <-chan struct{}
	for {
		select {
		case <-ctx.Done():
			return newsEnd
		case <-s.sandbox.Done():
			return newsEnd
		case <-answered:
			return newsAnswer
		case <-passed:
			// The agent can pass the limit as often as it likes.
			t := time.NewTimer(memoryAskPause)
			defer t.Stop()
			passed, timer, rests = nil, t.C, true
		case <-timer:
			if rests || s.activity == nil {
				return newsMeasure
			}
			timer, active = nil, s.activity.asks
		case <-active:
			return newsMeasure
		}
	}
}

// wantMemory asks for a higher limit, and sets it if that is approved.
func (s *Shim) wantMemory(ctx context.Context, need, limit, want int64) {
	const mb = 1 << 20
	q := approval.Question{Kind: api.ApprovalMemory, Text: fmt.Sprintf("raise to %d MB", want/mb),
		Note: fmt.Sprintf("its programs need %d of %d MB, without what can be dropped", need/mb, limit/mb)}
	_, a, err := s.ask(ctx, q, usualAnswerWait)
	if err != nil {
		s.Log.Warn("no question about memory", "err", err)
		return
	}
	if a.Verdict != api.VerdictApprove {
		return
	}
	if err := s.raiseMemory(limit, want); err != nil {
		s.Log.Error("approved memory not given", "err", err)
		return
	}
	s.events.Publish(api.Event{Type: wire.EventMemory, Agent: s.Spec.Agent, Data: map[string]any{"memory_mb": want / mb}})
}

// raiseMemory sets a higher limit, unless it was changed since the question.
func (s *Shim) raiseMemory(from, to int64) error {
	select {
	case s.live.changing <- struct{}{}:
		defer func() { <-s.live.changing }()
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
	v := s.settings()
	if v.MemoryBytes != from {
		return fmt.Errorf("the limit has changed from %d to %d bytes since the question", from, v.MemoryBytes)
	}
	v.MemoryBytes = to
	return s.apply(wire.SettingsRequest{Settings: v})
}
