package agent

import (
	"context"
	"fmt"
	"time"

	"polis/daemon/api"
)

// Watcher observes the processes of shims from outside, by means that cannot hang.
type Watcher interface {
	// Stopped reports whether the agent's shim is stopped by a signal.
	Stopped(ctx context.Context, a *Agent) (bool, error)
	// Dying reports whether the agent's shim was killed, or exits, and has not ended.
	Dying(ctx context.Context, a *Agent) (bool, error)
	// Continue continues a stopped shim.
	Continue(ctx context.Context, a *Agent) error
	// Beat returns the age of the shim's last heartbeat; false if there was none.
	Beat(a *Agent) (age time.Duration, ok bool)
	// Waiting returns the number of unanswered requests to the agent's views.
	Waiting(ctx context.Context, a *Agent) (int, error)
	// Forget drops what is known of a shim that has ended.
	Forget(a *Agent)
	// Ping queries the shim, Statfs its views. Both wait for the answer.
	Ping(ctx context.Context, a *Agent) error
	Statfs(ctx context.Context, a *Agent) error
	// End aborts the FUSE connections of the agent's views and kills its shim.
	End(ctx context.Context, a *Agent) error
}

const (
	watchTick = time.Second
	// pingEvery is the interval of pings of a shim without heartbeats; with waiting requests it
	// is pingSoon, and a shim with heartbeats is not pinged otherwise. So a hundred idle agents
	// cost next to nothing.
	pingEvery = 20 * time.Second
	pingSoon  = 3 * time.Second
	// stoppedEvery is at which checks it is read whether a signal stopped the shim; with waiting
	// requests at each.
	stoppedEvery = 4
	// lateAfter is how old a heartbeat of a shim may be, which comes every 15 seconds, before it
	// is pinged at once.
	lateAfter = 18 * time.Second
	// noticeAfter is how long an answer may take before it is logged, and pingTime how long
	// before it counts as missing. A machine under load is slow, not broken. A shim that hangs is
	// so noticed within five seconds of the first request to its views that waits: two checks,
	// then the ping.
	noticeAfter = 2 * time.Second
	pingTime    = 20 * time.Second
	// maxStops is how many consecutive checks may find a shim stopped that was continued each
	// time. maxSilence is how many answers may be missing.
	maxStops = 5
	// maxDying is how many consecutive checks may find a shim that was killed and has not ended.
	maxDying   = 2
	maxSilence = 3
	endTime    = 15 * time.Second
)

// health is the state of the checks of one run of an agent's shim.
type health struct {
	gen     uint64
	stops   int
	dying   int // consecutive checks at which the shim was ending
	waits   int // consecutive checks at which requests waited
	checks  int // until it is read whether the shim is stopped
	silence int
	next    time.Time
	asking  bool // guarded by the manager's mutex, with silence and next
	ended   bool
}

// watch finds shims that are stopped or hang. Every process that opens a file of such an agent
// waits, on the host too.
func (m *Manager) watch() {
	tick := time.NewTicker(watchTick)
	defer tick.Stop()
	known := map[*Agent]*health{}
	for {
		select {
		case <-m.ctx.Done():
			return
		case <-tick.C:
		}
		now := map[*Agent]*health{}
		for a, gen := range m.watched() {
			h := known[a]
			if h != nil && h.gen != gen {
				m.Watch.Forget(a)
				h = nil
			}
			if h == nil {
				h = &health{gen: gen, next: time.Now().Add(pingEvery)}
			}
			now[a] = h
			m.examine(a, h)
		}
		for a := range known {
			if now[a] == nil {
				m.Watch.Forget(a)
			}
		}
		known = now
	}
}

// watched returns the agents whose shims should answer, with their generation.
func (m *Manager) watched() map[*Agent]uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[*Agent]uint64{}
	for _, a := range m.agents {
		if a.up && !a.leaving {
			out[a] = a.Kept.Generation
		}
	}
	return out
}

// examine checks one shim. It does not block on the shim.
func (m *Manager) examine(a *Agent, h *health) {
	n, err := m.Watch.Waiting(m.ctx, a)
	if err != nil {
		m.Log.Debug("requests of the shim not counted", "agent", a.Name(), "err", err)
	}
	if n > 0 {
		h.waits++
	} else {
		h.waits = 0
	}
	age, beats := m.Watch.Beat(a)
	late := beats && age > lateAfter
	if h.checks--; h.checks < 0 || n > 0 || late || h.stops+h.dying > 0 {
		h.checks = stoppedEvery - 1
		if m.cannotEnd(a, h) {
			return
		}
		stopped, err := m.Watch.Stopped(m.ctx, a)
		if err != nil {
			m.Log.Debug("shim not examined", "agent", a.Name(), "err", err)
			return
		}
		if stopped {
			h.stops++
			m.continueShim(a, h)
			return
		}
		h.stops = 0
	}
	m.mu.Lock()
	soon := (h.waits > 1 || late || h.silence > 0) && time.Until(h.next) < pingEvery-pingSoon
	due := !h.asking && !h.ended && (soon || !beats && time.Now().After(h.next))
	h.asking = h.asking || due
	m.mu.Unlock()
	if due {
		views := h.waits > 1
		m.wg.Go(func() { m.ping(a, h, views) })
	}
}

// cannotEnd reports whether the shim was killed. It ends a shim that does not end by itself: a thread of it waits for
// an answer that the shim would have to give. Its sockets are open, and nobody answers there.
func (m *Manager) cannotEnd(a *Agent, h *health) bool {
	dying, err := m.Watch.Dying(m.ctx, a)
	if err != nil {
		m.Log.Debug("shim not examined", "agent", a.Name(), "err", err)
	}
	if err != nil || !dying {
		h.dying = 0
		return false
	}
	if h.dying++; h.dying > maxDying {
		m.endHung(a, h, "it was killed, and could not end because it waited for its own view")
	}
	return true
}

// continueShim continues a stopped shim. It kills a shim that is stopped again and again.
func (m *Manager) continueShim(a *Agent, h *health) {
	switch {
	case h.stops > maxStops:
		m.endHung(a, h, fmt.Sprintf("it was stopped %d times in a row although polisd continued it", h.stops))
		return
	case h.stops == 1:
		m.Log.Warn("shim stopped by a signal; continued", "agent", a.Name())
		m.Events.Publish(api.Event{Type: api.EventShim, Agent: a.Name(), Message: "the shim of agent " + a.Name() + " was stopped by a signal; polisd continued it"})
	}
	if err := m.Watch.Continue(m.ctx, a); err != nil {
		m.Log.Warn("stopped shim not continued", "agent", a.Name(), "err", err)
	}
}

// ping queries a shim, and its views if requests wait there.
func (m *Manager) ping(a *Agent, h *health, views bool) {
	defer func() {
		m.mu.Lock()
		h.asking = false
		m.mu.Unlock()
	}()
	ctx, cancel := context.WithTimeout(m.ctx, pingTime)
	defer cancel()
	notice := time.AfterFunc(noticeAfter, func() {
		m.Log.Warn("shim does not answer", "agent", a.Name(), "for", noticeAfter)
	})
	err := m.Watch.Ping(ctx, a)
	what := "its control socket"
	if err == nil && views {
		err, what = m.Watch.Statfs(ctx, a), "its view"
	}
	notice.Stop()
	m.mu.Lock()
	h.next = time.Now().Add(pingEvery)
	if err == nil || m.ctx.Err() != nil {
		h.silence = 0
	} else {
		h.silence++
		h.next = time.Now()
	}
	silence := h.silence
	m.mu.Unlock()
	switch {
	case silence >= maxSilence:
		m.endHung(a, h, fmt.Sprintf("%s did not answer for %s", what, time.Duration(silence)*pingTime))
	case silence > 0:
		m.Log.Warn("shim does not answer", "agent", a.Name(), "what", what, "times", silence, "err", err)
		m.Events.Publish(api.Event{Type: api.EventShim, Agent: a.Name(), Message: fmt.Sprintf("the shim of agent %s does not answer: %s", a.Name(), what)})
	}
}

// endHung kills a hung shim. Its end is then handled like any other.
func (m *Manager) endHung(a *Agent, h *health, why string) {
	m.mu.Lock()
	over := h.ended || !a.up || a.leaving || a.Kept.Generation != h.gen
	h.ended = true
	if !over {
		a.hung = why
	}
	m.mu.Unlock()
	if over {
		return
	}
	m.Log.Error("shim hangs and is killed", "agent", a.Name(), "why", why)
	m.Events.Publish(api.Event{Type: api.EventShim, Agent: a.Name(), Message: "the shim of agent " + a.Name() + " hung and was killed: " + why})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(m.ctx), endTime)
	defer cancel()
	if err := m.Watch.End(ctx, a); err != nil {
		m.Log.Error("hung shim not killed", "agent", a.Name(), "err", err)
		m.mu.Lock()
		h.ended, h.silence = false, 0 // retry later
		m.mu.Unlock()
	}
}
