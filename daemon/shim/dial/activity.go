package dial

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"polis/cgroup"
	"polis/daemon/api/wire"
)

// DefaultInterval is the interval at which an Activity reads the meters. A new listener of an agent is
// mapped within a second.
const DefaultInterval = 400 * time.Millisecond

// Activity reads the processor time of all agents and wakes the shims of those that run. An idle
// shim then needs no timer of its own. Run must run as long as a [Shim] uses the Activity.
type Activity struct {
	Every time.Duration // DefaultInterval if 0
	Log   *slog.Logger  // slog.Default if nil

	mu     sync.Mutex
	agents map[*metered]struct{}
}

// metered is one agent whose shim's events are followed.
type metered struct {
	meter *cgroup.Meter
	wake  func(context.Context) error
	// Used only by Run and the goroutine it starts.
	woken  time.Time
	waking chan struct{} // closed when that goroutine is done
	failed atomic.Bool   // the shim was not woken
}

// Run reads the meters until ctx ends.
func (a *Activity) Run(ctx context.Context) {
	every, log := a.Every, a.Log
	if every <= 0 {
		every = DefaultInterval
	}
	if log == nil {
		log = slog.Default()
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		a.mu.Lock()
		for m := range a.agents {
			if m.due(time.Now()) {
				wg.Go(func() { m.call(ctx, log) })
			}
		}
		a.mu.Unlock()
	}
}

// due reads the meter and reports whether the shim must be woken.
func (m *metered) due(now time.Time) bool {
	if m.waking != nil {
		select {
		case <-m.waking:
			m.waking = nil
		default:
			return false // activity meanwhile is seen later
		}
	}
	moved := m.meter.Moved()
	if !m.failed.Swap(false) && (!moved || now.Sub(m.woken) < wire.WakeAgain) {
		return false
	}
	m.woken, m.waking = now, make(chan struct{})
	return true
}

func (m *metered) call(ctx context.Context, log *slog.Logger) {
	defer close(m.waking)
	if err := m.wake(ctx); err != nil && ctx.Err() == nil {
		m.failed.Store(true)
		log.Debug("shim not woken", "op", "shim.look", "err", err)
	}
}

// add reads the meter periodically until remove.
func (a *Activity) add(path string, wake func(context.Context) error) (remove func(), err error) {
	meter, err := cgroup.OpenMeter(path)
	if err != nil {
		return nil, err
	}
	m := &metered{meter: meter, wake: wake}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.agents == nil {
		a.agents = map[*metered]struct{}{}
	}
	a.agents[m] = struct{}{}
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.agents, m)
		_ = m.meter.Close() //nolint:errcheck // it was only read
	}, nil
}
