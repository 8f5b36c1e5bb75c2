package conn

import (
	"log/slog"
	"sync"
)

// entries counts the entries of one queue of fuse-io-uring. An entry is the kernel's state of a
// place for one request; it is made by a command of registration and lives as long as the mount. It
// belongs to the ring through which its last answer went. A deferred request keeps its entry, so a
// reader that defers one is bare: it gets the entry of a request that was answered, or a new one if
// fewer entries than readers are free. So there are at most as many entries as readers and deferred
// requests at the same time, and a free one always.
//
// The interface has no command that withdraws an entry: enum fuse_uring_cmd of linux/fuse.h has
// registration and commit-and-fetch only, and the end of a ring cancels entries that the kernel
// keeps in the queue (fuse_uring_cancel of Linux 6.18). So the entries of a large crowd stay until
// the next mount.
type entries struct {
	hand chan *reader // to bare readers: who was answered, or nil for a new entry

	mu   sync.Mutex
	all  int
	held int // by deferred requests
	bare int // readers without one, to which nothing was handed yet
	own  int // readers
}

// add counts a reader and its entry.
func (e *entries) add() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all++
	e.own++
}

// addBare counts a reader that has no entry.
func (e *entries) addBare() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.own++
	e.bare++
}

// noneBare reports that no reader waits for an entry.
func (e *entries) noneBare() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.bare == 0
}

// remove counts a reader that ended with its entry.
func (e *entries) remove() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all--
	e.own--
}

// hold counts an entry that a deferred request keeps, and bare readers that have lost theirs by it.
func (e *entries) hold(bare int) {
	if e.hand == nil {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held++
	e.bare += bare
	for e.bare > 0 && e.all-e.held < e.own {
		e.bare--
		e.all++
		e.hand <- nil
	}
}

// hands gives the entry of an answered request to a bare reader, if there is one.
func (e *entries) hands(d *reader) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.counted {
		e.held--
	}
	if e.bare == 0 {
		return false
	}
	e.bare--
	e.hand <- d // has room for all readers
	return true
}

// drop ends the requests that no reader has taken from hand. No reader runs any more.
func (e *entries) drop(c *Conn) {
	for {
		select {
		case d := <-e.hand:
			if d != nil {
				c.ended(d)
			}
		default:
			return
		}
	}
}

// failed counts a new entry that could not be made.
func (e *entries) failed() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all--
	e.bare++
}

// regain waits for an entry for a bare reader; false means that the connection has ended.
func (r *reader) regain() bool {
	e := &r.queue.entries
	for {
		var d *reader
		select {
		case d = <-e.hand:
		case <-r.c.dead:
			return false
		}
		if d != nil {
			r.setBuffers(d.mem)
			d.setBuffers(nil)
			r.ring.prepareCommit(r.c.fd, r.queue.cpu, d.due, 0)
			if err := r.ring.submit(); err != nil {
				r.c.log.Error("answer not taken", slog.String("op", "io_uring"), slog.Any("err", err))
			}
			r.c.ended(d)
			r.queue.reviving.Store(false)
			return true
		}
		err := r.renew()
		if err == nil {
			return true
		}
		r.c.log.Error("no further entry", slog.String("op", "serve"), slog.Any("err", err))
		e.failed()
	}
}

// renew registers a new entry for a bare reader.
func (r *reader) renew() error {
	mem, err := r.c.mapBuffers()
	if err != nil {
		return err
	}
	r.setBuffers(mem)
	if err := r.register(); err != nil {
		return err // the kernel may know the memory, which stays
	}
	if r.file == 0 || !r.c.kick(r.file) {
		r.c.running.Go(func() { r.c.ask(r.queue.cpu) })
	}
	return nil
}
