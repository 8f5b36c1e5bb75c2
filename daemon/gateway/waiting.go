package gateway

import (
	"bytes"
	"sync"
	"time"
)

// retryTime is for how long after the end of its last request a program that got no answer still waits for its
// model: it sends the request again.
const retryTime = time.Minute

// Waiting is what is known of the requests for models that have no answer.
type Waiting struct {
	// Open is how many requests are open.
	Open int
	// Since is when the first was sent of those since the last part of an answer; zero if none waits.
	// A request that fails, and is sent again, keeps it.
	Since time.Time
	// Heard is when the last part of an answer came.
	Heard time.Time
}

// waiting follows the requests for models of one agent. The zero value has seen none.
type waiting struct {
	mu    sync.Mutex
	w     Waiting
	ended time.Time // when the last request ended
}

// begin notes a request; end is called when it has ended.
func (t *waiting) begin(now func() time.Time) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := now()
	t.expire(at)
	t.w.Open++
	if t.w.Since.IsZero() {
		t.w.Since = at
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.w.Open--
		t.ended = now()
	}
}

// heard notes a part of an answer. Other requests may be open: they wait from now on.
func (t *waiting) heard(p []byte, now time.Time) {
	if keepAlive(p) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.w.Heard, t.w.Since = now, time.Time{}
	if t.w.Open > 0 {
		t.w.Since = now
	}
}

// state returns what is known at a time.
func (t *waiting) state(now time.Time) Waiting {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expire(now)
	return t.w
}

// expire forgets the wait of a program that sends its request no more, or whose answer is complete.
func (t *waiting) expire(now time.Time) {
	if t.w.Open == 0 && !t.w.Since.IsZero() && (!t.w.Since.After(t.w.Heard) || now.Sub(t.ended) >= retryTime) {
		t.w.Since = time.Time{}
	}
}

// keepAlive reports whether a part of a stream of events only keeps the connection open: a comment, or an
// event "ping". Some services send them for as long as their model hangs.
func keepAlive(p []byte) bool {
	ping := func(event []byte) bool {
		return len(event) == 0 || event[0] == ':' || bytes.HasPrefix(event, []byte("event: ping"))
	}
	p = bytes.TrimSpace(p)
	if len(p) > 256 || !ping(p) { // most parts
		return false
	}
	for event := range bytes.SplitSeq(bytes.ReplaceAll(p, []byte("\r\n"), []byte("\n")), []byte("\n\n")) {
		if !ping(bytes.TrimSpace(event)) {
			return false
		}
	}
	return true
}

// Waiting returns what is known now of the requests of the agent that have no answer.
func (g *Gateway) Waiting() Waiting { return g.waiting.state(g.Now()) }
