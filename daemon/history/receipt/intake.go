package receipt

import (
	"sync"
	"time"

	"polis/daemon/api"
)

const (
	// maxQueued bounds the events of one agent that wait to be recorded, and maxQueues for how many
	// agents there are such queues.
	maxQueued = 2048
	maxQueues = 4096
	// The share of one agent: entries per second, and at once.
	shareRate  = 50
	shareBurst = 500
)

// intake takes events as they are published. It is bounded, and never waits.
type intake struct {
	mu     sync.Mutex
	queues map[string]*queue
	wake   chan struct{}
}

// queue has the events of one agent, or with "" those of none.
type queue struct {
	events  []queued
	equal   map[string]int // sameness to the index in events
	dropped int
}

type queued struct {
	event api.Event
	count int
}

// put adds an event that is a receipt.
func (in *intake) put(e api.Event) {
	in.mu.Lock()
	defer in.mu.Unlock()
	q := in.queues[e.Agent]
	if q == nil {
		if len(in.queues) >= maxQueues {
			return
		}
		q = &queue{equal: map[string]int{}}
		in.queues[e.Agent] = q
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	q.put(e)
	select {
	case in.wake <- struct{}{}:
	default:
	}
}

func (q *queue) put(e api.Event) {
	n := 1
	if c, ok := number(e.Data["count"]); ok && c > 1 {
		n = c
	}
	room := 2 * maxQueued
	if byAgent(e.Type) { // other events have room beside a flood of these
		room = maxQueued
		key := sameness(e)
		if i, ok := q.equal[key]; ok {
			q.events[i].count += n
			return
		}
		if len(q.events) < room {
			q.equal[key] = len(q.events)
		}
	}
	if len(q.events) >= room {
		q.dropped += n
		return
	}
	q.events = append(q.events, queued{e, n})
}

// take returns what there is, and begins again.
func (in *intake) take() map[string]*queue {
	in.mu.Lock()
	defer in.mu.Unlock()
	out := in.queues
	in.queues = map[string]*queue{}
	return out
}

// share is what one agent may still record.
type share struct {
	left float64
	at   time.Time
}

// use takes one entry of the share, if there is one.
func (s *share) use(now time.Time) bool {
	if s.at.IsZero() {
		s.left = shareBurst
	} else {
		s.left = min(shareBurst, s.left+shareRate*now.Sub(s.at).Seconds())
	}
	s.at = now
	if s.left < 1 {
		return false
	}
	s.left--
	return true
}

func number(v any) (int, bool) {
	switch n := v.(type) {
	case int:
		return n, true
	case int64:
		return int(n), true
	case float64:
		return int(n), true
	}
	return 0, false
}
