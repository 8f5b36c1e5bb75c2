package shim

import (
	"net/http"
	"sync"
	"time"

	"polis/cgroup"
	"polis/daemon/api/wire"
)

// awake is how long the shim polls by itself after the agent ran, or after polisd woke it.
const awake = 2 * wire.WakeAgain

// activity decides when the shim polls its agent. A hundred idle agents are a hundred processes
// with a timer each, so a polisd that follows the shim's events reads the processor time of all
// of them and wakes the shims of agents that run. Without a polisd the shim reads it itself.
type activity struct {
	meter *cgroup.Meter
	// These get a value while the agent runs, unless they are full.
	pids, memory, names, asks chan struct{}
	// wake ends the pause of the watcher of listeners.
	wake chan struct{}

	mu       sync.Mutex
	watchers int       // streams of a polisd that wakes us
	until    time.Time // no pause before
}

func newActivity(m *cgroup.Meter) *activity {
	return &activity{meter: m, pids: make(chan struct{}, 1), memory: make(chan struct{}, 1), names: make(chan struct{}, 1), asks: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
}

// idle reads the meter; see netbridge.Watcher.
func (a *activity) idle() bool {
	if !a.meter.Moved() {
		return true
	}
	a.ran()
	return false
}

// ran notes that the agent has run.
func (a *activity) ran() {
	a.stayAwake()
	for _, c := range []chan struct{}{a.pids, a.memory, a.names, a.asks} {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// paced waits for pause, and then until active has a value; a nil active always has one. It returns
// false as soon as end or other is closed.
func paced(active <-chan struct{}, pause time.Duration, end, other <-chan struct{}) bool {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-end:
		return false
	case <-other:
		return false
	}
	if active == nil {
		return true
	}
	select {
	case <-active:
		return true
	case <-end:
		return false
	case <-other:
		return false
	}
}

// rest reports that a polisd watches the agent, which has been idle.
func (a *activity) rest() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.watchers > 0 && time.Now().After(a.until)
}

func (a *activity) stayAwake() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.until = time.Now().Add(awake)
}

// resume ends the pause.
func (a *activity) resume() {
	a.stayAwake()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// watched records a polisd that will wake the shim, until release. It does so from its first read
// of the meter on, so no activity is missed in between.
func (a *activity) watched() (release func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers++
	return func() {
		a.mu.Lock()
		a.watchers--
		a.mu.Unlock()
		a.resume()
	}
}

// handleLook is POST /v1/look.
func (s *Shim) handleLook(w http.ResponseWriter, _ *http.Request) error {
	if s.activity != nil {
		s.activity.resume()
	}
	return writeJSON(w, struct{}{})
}
