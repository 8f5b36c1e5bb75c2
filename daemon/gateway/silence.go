package gateway

import (
	"sync/atomic"
	"time"
)

// silenceTimer calls a function when nothing was heard for a time. To hear costs one atomic store; a timer that is
// reset with each part of a stream costs several times as much.
type silenceTimer struct {
	limit atomic.Int64 // nanoseconds
	last  atomic.Int64 // nanoseconds since began
	began time.Time
	timer *time.Timer
	over  func()
}

// newSilenceTimer calls over when nothing was heard for limit.
func newSilenceTimer(limit time.Duration, over func()) *silenceTimer {
	s := &silenceTimer{began: time.Now(), over: over}
	s.limit.Store(int64(limit))
	s.timer = time.AfterFunc(time.Hour, s.fired)
	s.timer.Reset(limit) // after the field is set, which fired reads
	return s
}

// fired is called by the timer.
func (s *silenceTimer) fired() {
	if left := time.Duration(s.last.Load()+s.limit.Load()) - time.Since(s.began); left > 0 {
		s.timer.Reset(left)
		return
	}
	s.over()
}

// heard postpones the end.
func (s *silenceTimer) heard() { s.last.Store(int64(time.Since(s.began))) }

// bound changes the limit, and postpones the end.
func (s *silenceTimer) bound(limit time.Duration) {
	s.heard()
	s.limit.Store(int64(limit))
	s.timer.Reset(limit)
}

func (s *silenceTimer) stop() { s.timer.Stop() }
