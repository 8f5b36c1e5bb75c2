package shim

import (
	"fmt"
	"time"

	"polis/daemon/api"
)

const (
	// pressureEvery is how often the memory of the sandbox is measured.
	pressureEvery = 5 * time.Second
	// pressureFor is how long an agent must have been at its limit to emit an event.
	pressureFor = 20 * time.Second
	// pressureAgain is the interval of further events.
	pressureAgain = 10 * time.Minute
	// pressureShare is the part of the time, as a divisor, in which processes wait for
	// memory under pressure.
	pressureShare = 4
)

// pressure detects that an agent has been at its memory limit for long. The kernel does not kill
// such a program: it drops the pages of its files and reads them again, and the program makes
// hardly any progress.
type pressure struct {
	reclaims uint64        // the count at the last measurement
	stalled  time.Duration // likewise
	last     time.Time     // of the last measurement
	since    time.Time
	reported time.Time
}

// use is the memory of the sandbox, in bytes. need is the part that cannot be dropped.
type use struct {
	reclaims           uint64
	bytes, need, limit uint64
	// stalled is how long its processes have waited for memory; 0 if the kernel does not measure it.
	stalled time.Duration
}

// full reports whether the limit is reached. Page cache alone can fill a limit without harm, so
// either at least four fifths are memory that cannot be dropped, or processes waited for memory for
// a part of the time that has passed since the last measurement.
func (u use) full(waited, passed time.Duration) bool {
	if u.limit == 0 || u.bytes < u.limit/20*19 {
		return false
	}
	return u.need >= u.limit/10*8 || waited > 0 && waited >= passed/pressureShare
}

// measured records a measurement. If an event is due, it returns since when the agent has been at
// its limit.
func (p *pressure) measured(now time.Time, u use) (since time.Time, report bool) {
	more := u.reclaims > p.reclaims
	passed, waited := now.Sub(p.last), u.stalled-p.stalled
	paused := passed > 3*pressureEvery // it did not run
	p.reclaims, p.stalled, p.last = u.reclaims, u.stalled, now
	if !more || !u.full(waited, min(passed, pressureEvery)) {
		p.since = time.Time{}
		return p.since, false
	}
	if p.since.IsZero() || paused {
		p.since = now
	}
	if now.Sub(p.since) < pressureFor || !p.reported.IsZero() && now.Sub(p.reported) < pressureAgain {
		return p.since, false
	}
	p.reported = now
	return p.since, true
}

// watchPressure emits events while the agent is at its memory limit for long. An agent that does
// not run is under none, and its memory is not measured: running is signalled by active, or
// assumed if that is nil.
func (s *Shim) watchPressure(active <-chan struct{}) {
	group := s.sandbox.Group()
	var p pressure
	for paced(active, pressureEvery, s.sandbox.Done(), s.ctx.Done()) {
		u := use{limit: uint64(max(s.settings().MemoryBytes, 0))}
		var err error
		u.stalled, _ = group.MemoryStalled()
		if u.reclaims, err = group.Reclaims(); err == nil && u.reclaims > p.reclaims { // else there is no pressure
			u.bytes, u.need, err = s.memoryUse()
		}
		if err != nil {
			s.Log.Debug("memory pressure not measured", "err", err)
			continue
		}
		since, report := p.measured(time.Now(), u)
		if !report {
			continue
		}
		s.hits.hit("memory", 0, time.Now())
		hint := memoryHint(s.Spec.Agent, int64(u.limit))
		s.events.Publish(api.Event{Type: api.EventMemoryPressure, Agent: s.Spec.Agent,
			Message: fmt.Sprintf("agent %s has been at its memory limit of %d MB for %d s, of which files have hardly any: %s gives it more",
				s.Spec.Agent, u.limit>>20, int(time.Since(since).Seconds()), hint),
			Data: map[string]any{"limit_bytes": u.limit, "need_bytes": u.need, "since": since.UTC(), "stalled_ms": u.stalled.Milliseconds(), "hint": hint}})
	}
}

func (s *Shim) memoryUse() (bytes, need uint64, err error) {
	stats, err := s.sandbox.Stats()
	if err != nil {
		return 0, 0, err
	}
	need, err = s.sandbox.Group().MemoryNeed()
	return stats.MemoryBytes, need, err
}
