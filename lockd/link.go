package lockd

import (
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// link is the sending half of a connection. put never blocks, so it may be called with Server.mu
// or Client.mu held, which fixes the order of messages. flush writes the bytes without these
// locks; it is called by a goroutine that has put a message and can wait, or by the link's
// writer.
type link struct {
	conn net.Conn
	// name is for error texts.
	name string

	mu      sync.Mutex
	out     []*message
	sent    uint64 // messages put so far
	spare   []*message
	writing bool
	broken  error
	buf     []byte
	kick    chan struct{}
}

const (
	// maxOut is how many messages may wait for a peer that does not read.
	maxOut = 1 << 16
	// sendTimeout is how long the peer may leave its socket buffer full.
	sendTimeout = 2 * time.Second
	// sendPart is how much is sent within that time at the most, in bytes.
	sendPart = 64 << 10
)

func newLink(conn net.Conn, name string) *link {
	return &link{conn: conn, name: name, kick: make(chan struct{}, 1)}
}

// put queues a message. A peer that has stopped reading is disconnected.
func (l *link) put(m *message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return
	}
	if len(l.out) >= maxOut {
		l.fail(fmt.Errorf("%s does not read its messages", l.name))
		return
	}
	l.out = append(l.out, m)
	l.sent++
}

// post queues a message and wakes the writer.
func (l *link) post(m *message) {
	l.put(m)
	l.wake()
}

func (l *link) wake() {
	select {
	case l.kick <- struct{}{}:
	default:
	}
}

// fail closes the connection; the reader notices. Called with l.mu held.
func (l *link) fail(err error) {
	if l.broken == nil {
		l.broken = err
		l.out = nil
		// The reader reports the loss; the error of a second close adds nothing.
		_ = l.conn.Close()
	}
}

// shut closes the connection for a reason.
func (l *link) shut(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail(err)
}

// cause is why the link was closed from this side, or nil.
func (l *link) cause() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.broken
}

// flush sends what is queued, unless another goroutine is sending: then that one sends it.
func (l *link) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing {
		return
	}
	l.writing = true
	for len(l.out) > 0 && l.broken == nil {
		batch := l.out
		l.out = l.spare[:0]
		l.mu.Unlock()
		err := l.send(batch)
		clear(batch)
		l.mu.Lock()
		l.spare = batch[:0]
		if err != nil {
			l.fail(err)
		}
	}
	l.writing = false
}

func (l *link) send(batch []*message) error {
	buf := l.buf[:0]
	for _, m := range batch {
		var err error
		if buf, err = appendFrame(buf, m); err != nil {
			return err
		}
	}
	l.buf = buf
	if cap(buf) > maxFrame {
		l.buf = nil // free the memory of a large message
	}
	// The bound is for a peer that stands still. The claims of thousands of leases take longer in all
	// on a busy machine; if they were cut off, the next connection would begin with them again.
	for part := range slices.Chunk(buf, sendPart) {
		if err := l.conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
			return fmt.Errorf("send to %s: %w", l.name, err)
		}
		if _, err := l.conn.Write(part); err != nil {
			return fmt.Errorf("send to %s: %w", l.name, err)
		}
	}
	return nil
}

// writer sends what others post, until done.
func (l *link) writer(done <-chan struct{}) {
	for {
		select {
		case <-l.kick:
			l.flush()
		case <-done:
			return
		}
	}
}
