package conn

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// queue is a source of requests for readers: the device, or one processor's queue of
// fuse-io-uring.
type queue struct {
	cpu     int          // -1: the device
	waiting atomic.Int32 // readers that wait, or are on their way
	readers atomic.Int32 // all
	limit   int32        // of readers
	first   *reader      // made before the queue was registered with the kernel

	entries  entries     // of a queue of fuse-io-uring
	reviving atomic.Bool // a bare reader was started, and has no entry yet
}

// spawnReader starts one more reader of a queue if the limit allows it.
func (c *Conn) spawnReader(q *queue) bool {
	if q.readers.Add(1) > q.limit { // counted first: several readers may call at once
		q.readers.Add(-1)
		return false
	}
	r := c.reuse(q)
	var err error
	if r == nil {
		r, err = c.reader(q)
	}
	if err != nil {
		q.readers.Add(-1)
		c.log.Warn("no further reader", slog.String("op", "serve"), slog.Any("err", err))
		return false
	}
	if q.cpu >= 0 {
		q.entries.add()
	}
	c.start(r)
	return true
}

// spawnBare starts a reader of a ring without an entry: it takes that of the next request that a
// goroutine has answered. The kernel prefers the entry that was freed last, so after many answers by
// lateRing its requests would never come to the readers again, whose entries are below.
func (c *Conn) spawnBare(q *queue) {
	if !q.entries.noneBare() || !q.reviving.CompareAndSwap(false, true) {
		return
	}
	if q.readers.Add(1) > q.limit {
		q.readers.Add(-1) // and there is no further attempt
		return
	}
	r, err := newRingReader(c, q)
	if err != nil {
		q.readers.Add(-1)
		c.log.Warn("no further reader", slog.String("op", "serve"), slog.Any("err", err))
		return
	}
	if err := unix.Munmap(r.mem); err != nil {
		c.log.Warn("memory not given back", slog.String("op", "munmap"), slog.Any("err", err))
	}
	r.setBuffers(nil)
	r.uncounted = true
	c.start(r)
}

func (c *Conn) reader(q *queue) (*reader, error) {
	if q.cpu < 0 {
		return newReader(c)
	}
	return newRingReader(c, q)
}

// reuse takes a reader of the device that has exited before.
func (c *Conn) reuse(q *queue) *reader {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.spare) == 0 || q.cpu >= 0 {
		return nil
	}
	r := c.spare[len(c.spare)-1]
	c.spare = c.spare[:len(c.spare)-1]
	return r
}

// start runs a reader that is counted already.
func (c *Conn) start(r *reader) {
	r.queue.waiting.Add(1)
	c.mu.Lock()
	c.readers = append(c.readers, r)
	c.mu.Unlock()
	c.running.Go(r.run)
}

// retire counts a reader as waiting, or returns false if there are enough without it. The count
// that others rely on meanwhile stays correct: a reader only exits while the remaining count is
// high enough. The kernel keeps state of every reader of a ring until the end, so those stay.
func (c *Conn) retire(q *queue) bool {
	n := q.waiting.Add(1)
	for q.cpu < 0 && n > int32(c.opts.Idle) {
		if q.waiting.CompareAndSwap(n, n-1) {
			return true
		}
		n = q.waiting.Load()
	}
	return false
}

// leave is the exit of a reader.
func (c *Conn) leave(r *reader) {
	r.queue.readers.Add(-1)
	if r.ring != nil && !r.uncounted {
		r.queue.entries.remove()
	}
	c.forget(r)
}

// forget takes a reader out of the list that has ended, or a deferred request that was answered.
func (c *Conn) forget(r *reader) {
	r.call.answered.Store(r.call.unique.Load()) // or its answer is discarded
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range r.counts {
		c.past[i] += r.counts[i].Swap(0)
	}
	for i, o := range c.readers {
		if o == r {
			c.readers = append(c.readers[:i], c.readers[i+1:]...)
			break
		}
	}
	if r.epoll >= 0 {
		unix.Close(r.epoll)
		r.epoll = -1
	}
	// The number of simultaneous callers varies: the memory of exited readers is kept.
	if len(c.spare) < spares && r.warm == 0 && r.ring == nil {
		c.spare = append(c.spare, r)
		return
	}
	c.free(r)
}

// free frees a reader's memory. c.mu is held: see Settle.
func (c *Conn) free(r *reader) {
	var err error
	if r.mem != nil {
		err = unix.Munmap(r.mem)
	}
	if r.ring != nil {
		err = errAnd(err, r.ring.close())
		r.ring = nil
	}
	if err != nil {
		c.log.Warn("memory not given back", slog.String("op", "munmap"), slog.Any("err", err))
	}
}
