package events

import (
	"sync"
	"time"

	"polis/daemon/api"
)

// Hub is a bounded ring of events with subscribers.
type Hub struct {
	// Size is the number of events kept; set before first use (default 4096).
	// Up to a quarter more may be kept for a while.
	Size int
	// Minor says of an event that it may go before others when the ring is
	// full; nil: none may. A flood of refusals must not push out that a
	// command ended.
	Minor func(api.Event) bool
	// Tap gets every event when it is published; nil: none does. It must not block, and not call the
	// hub. Set before first use.
	Tap func(api.Event)
	Now func() time.Time

	mu   sync.Mutex
	next uint64
	// lost is the highest number that is not kept any more, or was of an earlier life.
	lost uint64
	ring []api.Event
	subs map[chan struct{}]struct{}
}

// New makes a Hub whose first event gets the number after first.
func New(first uint64) *Hub {
	return &Hub{Size: 4096, Now: time.Now, next: first + 1, lost: first, subs: map[chan struct{}]struct{}{}}
}

// Publish stamps and stores the event and wakes the subscribers.
func (h *Hub) Publish(e api.Event) api.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.ID = h.next
	h.next++
	if e.Time.IsZero() {
		e.Time = h.Now()
	}
	if h.ring = append(h.ring, e); len(h.ring) > h.Size+h.Size/4 {
		h.trim()
	}
	if h.Tap != nil {
		h.Tap(e)
	}
	for c := range h.subs {
		select {
		case c <- struct{}{}:
		default:
		}
	}
	return e
}

// trim brings the ring back to Size: minor events go first, then the oldest.
// It makes a new ring, because Since has given away parts of the old one.
func (h *Hub) trim() {
	over := len(h.ring) - h.Size
	kept := make([]api.Event, 0, h.Size+h.Size/4+1)
	for _, e := range h.ring {
		if over > 0 && h.Minor != nil && h.Minor(e) {
			over--
			h.lost = max(h.lost, e.ID)
			continue
		}
		kept = append(kept, e)
	}
	if over > 0 {
		h.lost = max(h.lost, kept[over-1].ID)
	}
	h.ring = kept[over:]
}

// Read is Since, and reports whether events above id are missing in what it
// returns: they were pushed out, or were of an earlier life. A caller that asks for all
// there are (0) misses nothing. last is the newest number there was.
func (h *Hub) Read(id uint64) (evs []api.Event, last uint64, missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	missed = id > 0 && (id < h.lost || id >= h.next)
	return h.since(id), h.next - 1, missed
}

// Since returns the kept events with a number above id, oldest first.
func (h *Hub) Since(id uint64) []api.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.since(id)
}

func (h *Hub) since(id uint64) []api.Event {
	if id >= h.next {
		// The number comes from an earlier life of the daemon.
		id = 0
	}
	for i, e := range h.ring {
		if e.ID > id {
			return append([]api.Event(nil), h.ring[i:]...)
		}
	}
	return nil
}

// Last returns the number of the newest event.
func (h *Hub) Last() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next - 1
}

// Watch returns a channel that gets a value after events were published;
// cancel ends it. Readers then call Since.
func (h *Hub) Watch() (wake <-chan struct{}, cancel func()) {
	c := make(chan struct{}, 1)
	h.mu.Lock()
	h.subs[c] = struct{}{}
	h.mu.Unlock()
	return c, func() {
		h.mu.Lock()
		delete(h.subs, c)
		h.mu.Unlock()
	}
}
