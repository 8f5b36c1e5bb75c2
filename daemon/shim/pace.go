package shim

import (
	"sync"
	"time"
)

// pace admits one operation at a time, and spaces them: the next begins least after the last one ended,
// and share times as long after it as that one took. So an agent that begins them in a storm gets a
// fixed part of the time of polisd, whatever one of them costs.
type pace struct {
	least time.Duration
	share int

	mu   sync.Mutex
	busy bool
	next time.Time
}

// begin admits an operation, which calls end; otherwise it returns how long to wait, at least.
func (p *pace) begin(now time.Time) (end func(now time.Time), wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.busy {
		return nil, p.least
	}
	if wait := p.next.Sub(now); wait > 0 {
		return nil, wait
	}
	p.busy = true
	return func(end time.Time) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.busy = false
		p.next = end.Add(max(p.least, time.Duration(p.share)*end.Sub(now)))
	}, 0
}
