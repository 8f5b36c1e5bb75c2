package rawconn

import (
	"context"
	"sync"
)

// idle records whether the reader of a connection, of which there is one, waits in Read for bytes: then it has used all
// that it has read.
type idle struct {
	mu      sync.Mutex
	now     bool
	closed  bool
	changed chan struct{} // closed at each change; nil if no call waits
}

func (i *idle) set(now bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.now = now
	i.wake()
}

func (i *idle) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.wake()
}

func (i *idle) wake() {
	if i.changed != nil {
		close(i.changed)
		i.changed = nil
	}
}

// done reports whether there is nothing to wait for, and otherwise returns what is closed at the next change.
func (i *idle) done() (bool, <-chan struct{}) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.now || i.closed {
		return true, nil
	}
	if i.changed == nil {
		i.changed = make(chan struct{})
	}
	return false, i.changed
}

// AwaitReader waits until the connection's one reader waits in Read, so that it has used all that it has read, or until
// the connection is closed or ctx ends. After it, what a client of HTTP writes is not answered by bytes that came with
// an answer before: those the reader has seen, and closed the connection. Bytes that come later are not awaited.
func (c *Conn) AwaitReader(ctx context.Context) {
	for {
		done, changed := c.idle.done()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// Close is part of net.Conn.
func (c *Conn) Close() error {
	defer c.idle.close()
	return c.Conn.Close()
}
