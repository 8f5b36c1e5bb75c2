package conn

import (
	"log/slog"
	"os"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// workers bounds the deferred requests that run at the same time, per connection. Each may use a
// thread while it is in a system call. Those that wait in Call.Wait do not count.
const workers = 8

// Waited is the result of Call.Wait.
type Waited int

// The results of Call.Wait.
const (
	// WaitDone: the function has returned.
	WaitDone Waited = iota
	// WaitAgain: the function was not called. The handler must return at once, with any status. It
	// is called again, from the start, where it may wait.
	WaitAgain
	// WaitFull: the function was not called, because Options.Deferred requests wait already.
	WaitFull
)

// Wait calls f, which may wait for another process or a person, without keeping a reader: the
// request is first moved to a goroutine of its own, for which the handler is called again. The
// handler holds no lock when it calls Wait, and after it decides again from what may have changed.
// f must end soon after Interrupted or Conn.Dead is closed, or when it is not needed any more.
func (c *Call) Wait(f func()) Waited {
	r := c.reader
	switch {
	case r == nil:
		f()
		return WaitDone
	case !r.slot:
		if !c.again && !r.c.mayDefer() {
			return WaitFull
		}
		c.again = true
		return WaitAgain
	case !r.counted:
		if !r.c.mayDefer() {
			return WaitFull
		}
		r.counted = true
		r.queue.entries.hold(0)
	}
	c.waiting.Store(true)
	defer c.waiting.Store(false)
	<-r.c.slots
	defer func() { r.c.slots <- struct{}{} }()
	f()
	return WaitDone
}

// mayDefer counts one more deferred request, if the limit allows it.
func (c *Conn) mayDefer() bool {
	if int(c.deferred.Add(1)) > c.opts.Deferred {
		c.deferred.Add(-1)
		return false
	}
	return true
}

// Deferred returns the number of requests that were moved to goroutines of their own and are not
// answered yet.
func (c *Conn) Deferred() int { return int(c.deferred.Load()) }

// detach moves the request that is handled, with the memory it is in, to a goroutine of its own.
// The reader gets other memory; that of a ring takes another entry of its queue when it continues.
func (r *reader) detach() bool {
	c := r.c
	var mem []byte
	var err error
	if r.ring == nil {
		mem, err = c.mapBuffers()
	} else {
		err = c.late.start(c)
	}
	if err != nil {
		c.log.Warn("request not deferred", slog.String("op", r.q.op.name), slog.Any("err", err))
		c.deferred.Add(-1)
		return false
	}
	d := &reader{c: c, queue: r.queue, epoll: -1, q: r.q, due: r.due, counted: true}
	d.call.reader = d
	d.setBuffers(r.mem)
	r.due, r.warm = 0, 0
	r.setBuffers(mem)
	c.mu.Lock()
	// Conn.interrupt finds the request here or there.
	d.call.take(&r.call)
	c.readers = append(c.readers, d)
	c.mu.Unlock()
	if r.ring != nil {
		if r.file = 0; d.q.header.Opcode == opOpen {
			r.file = d.q.header.NodeId
		}
		r.queue.entries.hold(1)
	}
	c.running.Go(func() { d.runSlot(func() (int, fuse.Status) { return d.dispatch(&d.q) }) })
	return true
}

// runSlot handles a request on a goroutine of its own. The number of those that run is bounded:
// each may occupy a thread.
func (r *reader) runSlot(handle func() (int, fuse.Status)) {
	c := r.c
	c.slots <- struct{}{}
	r.slot = true
	defer func() {
		<-c.slots
		if r.due == 0 {
			c.ended(r)
		} else {
			c.giveBack(r)
		}
	}()
	size, st := handle()
	if r.due != 0 {
		r.commit(0, fuse.EIO) // should there be no answer
	}
	r.conclude(&r.q, size, st)
}

// ended is the end of a request with a goroutine of its own: the kernel has its answer.
func (c *Conn) ended(r *reader) {
	r.warm = 1 // its memory is not kept
	c.forget(r)
	if r.counted {
		c.deferred.Add(-1)
	}
}

// take makes this call stand for the request of another one. Conn.mu is held.
func (c *Call) take(from *Call) {
	unique := from.unique.Load()
	from.mu.Lock()
	defer from.mu.Unlock()
	if from.struck.Load() == unique {
		c.struck.Store(unique)
	}
	c.unique.Store(unique)
	from.ch = nil
	from.again = false
	from.unique.Store(0)
}

// mapBuffers maps the memory of a reader.
func (c *Conn) mapBuffers() ([]byte, error) {
	mem, err := unix.Mmap(-1, 0, 2*c.half()+2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE|unix.MAP_NORESERVE)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	// A huge page would be two megabytes for a look-up.
	if err := unix.Madvise(mem, unix.MADV_NOHUGEPAGE); err != nil && err != unix.EINVAL { //nolint:errorlint // unix.Madvise wraps nothing
		return nil, os.NewSyscallError("madvise", errAnd(err, unix.Munmap(mem)))
	}
	return mem, nil
}

func (r *reader) setBuffers(mem []byte) {
	if r.mem = mem; mem == nil {
		r.in, r.out = nil, nil
		return
	}
	half := r.c.half()
	r.in = mem[page-sizeOf[fuse.WriteIn]() : half+page-replySize]
	r.out = mem[half+page-replySize : 2*half+page]
}
