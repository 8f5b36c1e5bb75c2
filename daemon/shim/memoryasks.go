package shim

import (
	"context"
	"fmt"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/approval"
	"polis/daemon/shim/wire"
)

// memoryAskEvery is how often the memory of an agent that may ask for more is measured.
const memoryAskEvery = time.Second

// memoryAsks asks a person for more memory before the limit is reached. Without the setting nothing
// is measured.
type memoryAsks struct {
	mu   sync.Mutex
	stop context.CancelFunc // of the present measurements; nil: there are none
}

// askMemory begins or ends the measurements as the settings require.
func (s *Shim) askMemory(v *wire.MemoryAsk) {
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
		s.watchMemory(ctx, *v)
		return nil
	})
}

// memoryAsk is where the question of one agent stands. It is pure.
type memoryAsk struct {
	wire.MemoryAsk
	open     bool
	answered int64 // the limit for which there was an answer; 0: none, ask again
}

// next is what to do after a measurement: ask for a limit (want > 0), or withdraw the question.
func (m *memoryAsk) next(need, limit int64) (want int64, withdraw bool) {
	soft := limit / 100 * int64(m.Percent)
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

// watchMemory measures until ctx or the sandbox ends.
func (s *Shim) watchMemory(ctx context.Context, v wire.MemoryAsk) {
	m := memoryAsk{MemoryAsk: v}
	tick := time.NewTicker(memoryAskEvery)
	defer tick.Stop()
	answered := make(chan struct{}, 1)
	question := struct{ withdraw context.CancelFunc }{func() {}}
	defer func() { question.withdraw() }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.sandbox.Done():
			return
		case <-answered:
			m.open = false
			continue
		case <-tick.C:
		}
		limit := s.settings().MemoryBytes
		need, err := s.sandbox.Group().MemoryNeed()
		if err != nil {
			s.Log.Debug("memory not measured", "err", err)
			continue
		}
		want, gone := m.next(int64(need), limit)
		if gone {
			question.withdraw()
		}
		if want == 0 {
			continue
		}
		m.open, m.answered = true, limit
		question.withdraw() // it is over
		var asked context.Context
		asked, question.withdraw = context.WithCancel(ctx)
		s.group.Go(func() error {
			s.wantMemory(asked, int64(need), limit, want)
			answered <- struct{}{}
			return nil
		})
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
