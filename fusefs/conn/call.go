package conn

import (
	"sync"
	"sync/atomic"
)

// Call is one request while it is handled. It belongs to its reader and serves one request after
// another, so it must not be kept beyond the handler.
type Call struct {
	// Local belongs to the file system: its value is still there at the next request of the same
	// reader, which saves an allocation.
	Local any

	reader *reader
	unique atomic.Uint64 // of the request that is handled; the last one when idle
	// answered is the request whose answer the kernel has; see Settle.
	answered atomic.Uint64
	// given is the request whose answer is in the reader's ring.
	given atomic.Uint64
	// struck is the request that was interrupted last.
	struck atomic.Uint64

	above   bool        // see Above
	again   bool        // the handler must run again, deferred
	waiting atomic.Bool // the handler is in Wait

	mu sync.Mutex
	ch chan struct{} // made for the first waiter; closed by an interrupt
}

// Above reports whether the file system above the mount makes the request for itself (Options.Above). It is known
// until the handler is called again.
func (c *Call) Above() bool { return c.above }

// Interrupted returns a channel that is closed when the kernel interrupts the request. It is made
// at the first call, so that a request without waiters costs nothing. Call it from within the
// handler, or while the handler waits.
func (c *Call) Interrupted() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ch == nil {
		c.ch = make(chan struct{})
		if c.WasInterrupted() {
			close(c.ch)
		}
	}
	return c.ch
}

// WasInterrupted reports whether the kernel has interrupted the request.
func (c *Call) WasInterrupted() bool { return c.struck.Load() == c.unique.Load() }

// begin reuses the call for another request. Only its reader does this, when the previous request
// needs it no more. Requests have unique numbers above zero.
func (c *Call) begin(unique uint64) {
	if c.ch != nil { // written by this reader's handler, or while it waited for it
		c.mu.Lock()
		c.ch = nil
		c.mu.Unlock()
	}
	c.unique.Store(unique)
}

// interrupt marks the request if this call stands for it. An interrupt that comes while the
// answer is given marks a number that is not used again.
func (c *Call) interrupt(unique uint64) bool {
	if c.unique.Load() != unique {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unique.Load() == unique && c.struck.Swap(unique) != unique && c.ch != nil {
		close(c.ch)
	}
	return true
}
