package conn

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// lateRing is the ring that takes the answers of deferred requests to the kernel, when no reader of
// their queue is without an entry. Entries that come to it serve further requests, each on a
// goroutine of its own. One thread has it, which is started with the first deferred request.
type lateRing struct {
	once sync.Once
	err  error
	ring *ring
	wake int // eventfd(2)
	// word is what is read of it. Mapped: the kernel writes to it while no Go code waits.
	word []byte

	mu     sync.Mutex
	posted []*reader // answered requests
	ended  bool

	idle map[uint64]lateEntry // with the kernel, by the user data of their commands
	last uint64
}

type lateEntry struct {
	queue *queue
	mem   []byte
}

// lateCompletions is how many completions the ring keeps without a cost.
const lateCompletions = 256

// start makes the ring, once.
func (l *lateRing) start(c *Conn) error {
	l.once.Do(func() {
		l.idle = map[uint64]lateEntry{}
		if l.wake, l.err = unix.Eventfd(0, unix.EFD_CLOEXEC); l.err != nil {
			return
		}
		if l.word, l.err = unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); l.err == nil {
			l.ring, l.err = newRing(lateCompletions)
		}
		if l.err != nil {
			l.err = fmt.Errorf("ring of deferred requests: %w", errAnd(l.err, unix.Close(l.wake)))
			return
		}
		c.running.Go(func() { l.run(c) })
		c.running.Go(func() {
			<-c.dead
			l.notify(c)
		})
	})
	return l.err
}

// notify wakes the thread.
func (l *lateRing) notify(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	one := [8]byte{0: 1} // any number
	if _, err := unix.Write(l.wake, one[:]); err != nil {
		c.log.Error("answer not passed on", slog.String("op", "eventfd"), slog.Any("err", err))
	}
}

// giveBack passes an answered request, with its entry, to a thread with a ring.
func (c *Conn) giveBack(d *reader) {
	if d.queue.entries.hands(d) {
		return
	}
	l := &c.late
	l.mu.Lock()
	ended := l.ended
	if !ended {
		l.posted = append(l.posted, d)
	}
	first := len(l.posted) == 1
	l.mu.Unlock()
	switch {
	case ended:
		c.ended(d)
	case first:
		l.notify(c)
	}
}

func (l *lateRing) run(c *Conn) {
	runtime.LockOSThread() // until both end: the ring is the thread's
	defer l.end(c)
	if err := l.ring.enable(); err != nil {
		c.log.Error("answers of deferred requests cannot be given", slog.String("op", "serve"), slog.Any("err", err))
		c.die()
		return
	}
	l.listen()
	for {
		leaveToKernel()
		done, e := l.ring.wait(0)
		takeFromKernel()
		switch {
		case e != 0:
			c.log.Error("requests cannot be read", slog.String("op", "io_uring"), slog.Any("err", e))
			c.die()
			return
		case done.user == 0:
			select {
			case <-c.dead:
				return
			default:
			}
			l.commit(c)
			l.listen()
		default:
			l.arrived(c, done)
		}
	}
}

// listen prepares to be woken.
func (l *lateRing) listen() {
	s := l.ring.prepare(l.wake, 0)
	s.opcode, s.addr, s.len = opRead, uint64(addrOf(l.word)), 8
}

// commit takes the posted answers to the kernel.
func (l *lateRing) commit(c *Conn) {
	l.mu.Lock()
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, d := range posted {
		d.shed()
		l.last++
		l.idle[l.last] = lateEntry{d.queue, d.mem}
		l.ring.prepareCommit(c.fd, d.queue.cpu, d.due, l.last)
		if err := l.ring.submit(); err != nil {
			c.log.Error("answer not taken", slog.String("op", "io_uring"), slog.Any("err", err))
		}
		d.setBuffers(nil)
		c.ended(d)
	}
}

// shed frees the memory of an answered request that the kernel does not need.
func (r *reader) shed() {
	if err := unix.Madvise(r.mem[:r.c.half()], unix.MADV_DONTNEED); err != nil {
		r.c.log.Debug("memory not given back", slog.String("op", "madvise"), slog.Any("err", err))
	}
	if r.warm > 0 {
		r.trim()
	}
}

// arrived starts the request that came with a completion.
func (l *lateRing) arrived(c *Conn, done cqe) {
	entry := l.idle[done.user]
	delete(l.idle, done.user)
	d := &reader{c: c, queue: entry.queue, epoll: -1}
	d.call.reader = d
	d.setBuffers(entry.mem)
	if done.res != 0 {
		if e := syscall.Errno(-done.res); !connectionEnded(e) {
			c.log.Error("command not taken by the kernel", slog.String("op", "io_uring"), slog.Any("err", e))
		}
		c.mu.Lock()
		c.free(d)
		c.mu.Unlock()
		return
	}
	n := d.take()
	q := &d.q
	st := decode(d.in[:n], q)
	if !d.begin(q, n) {
		d.commit(0, fuse.EIO) // the kernel waits for an answer to every request
		c.giveBack(d)
		return
	}
	c.spawnBare(d.queue)
	c.mu.Lock()
	c.readers = append(c.readers, d)
	c.mu.Unlock()
	c.running.Go(func() {
		d.runSlot(func() (int, fuse.Status) {
			size, st := d.process(q, st)
			if n > kept || size > kept {
				d.warm = cooling
			}
			return size, st
		})
	})
}

// end frees what the thread had.
func (l *lateRing) end(c *Conn) {
	l.mu.Lock()
	l.ended = true
	posted := l.posted
	l.posted = nil
	l.mu.Unlock()
	for _, d := range posted {
		c.ended(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range l.idle {
		c.free(&reader{c: c, queue: e.queue, mem: e.mem})
	}
	err := errAnd(errAnd(l.ring.close(), unix.Close(l.wake)), unix.Munmap(l.word))
	if err != nil {
		c.log.Warn("memory not given back", slog.String("op", "close"), slog.Any("err", err))
	}
}

func addrOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
