package conn

import (
	"errors"
	"log/slog"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	// silence is not an errno: there is nothing to answer.
	silence = fuse.Status(-1)
	// kept is how much of a reader's buffers stays in memory, in bytes each.
	kept = 128 << 10
	// spares is how many exited readers are kept for reuse.
	spares = 4
	// lingering is how often a reader polls for the next request before it sleeps: a few
	// microseconds.
	lingering = 8
	// cooling is after how many requests at most the rest is freed.
	cooling = 64
	// coolWait is how long, in milliseconds, a reader with much memory waits for a request before
	// it frees it.
	coolWait = 500
)

// reader takes requests one after another. Its memory is mapped, not Go's: two buffers of more
// than MaxWrite bytes, of which only the touched pages take memory. The data of WRITE and READ
// begins at a page.
type reader struct {
	c     *Conn
	queue *queue
	// slot: this is a request with a goroutine of its own, which has one of Conn.slots while it
	// does not wait. counted: it is one of Conn.deferred.
	slot, counted bool
	// uncounted: this reader of a ring has no entry yet, and is not one of entries.bare.
	uncounted bool
	// ring is where requests come from and answers go to; nil: the device.
	ring *ring
	due  uint64 // the request of the ring that has no answer yet
	file uint64 // the node of the file whose open was deferred last; 0: none, or another operation
	mem  []byte
	in   []byte
	out  []byte // header and body of the answer
	call Call
	// epoll wakes one reader for one request, not all that wait. Opened when the reader first
	// sleeps; -1 before and after.
	epoll  int
	events [1]unix.EpollEvent
	warm   int // requests until the memory of a big one is given back; 0 = given back

	q        query
	rename   fuse.RenameIn
	setxattr fuse.SetXAttrIn
	entries  fuse.DirEntryList

	counts [64]atomic.Uint64 // by opcode, written by this reader only
}

var page = os.Getpagesize()

func newReader(c *Conn) (*reader, error) {
	mem, err := c.mapBuffers()
	if err != nil {
		return nil, err
	}
	r := &reader{c: c, queue: &c.dev, epoll: -1}
	r.setBuffers(mem)
	r.call.reader = r
	return r, nil
}

// half is the room for one direction: the largest data, and a page.
func (c *Conn) half() int { return (c.opts.MaxWrite+page-1)/page*page + page }

func errAnd(first, second error) error {
	if first != nil {
		return first
	}
	return second
}

// run serves until the connection ends or there are enough readers. The reader is counted as
// waiting when it starts.
func (r *reader) run() {
	defer r.c.leave(r)
	if r.ring != nil && !r.join() {
		return
	}
	for {
		n, e := 0, unix.ENODEV
		if r.mem != nil || r.regain() {
			n, e = r.read()
		}
		switch e {
		case 0:
		case unix.EINTR, unix.EAGAIN, unix.ENOENT: // ENOENT: interrupted before it was taken
			continue
		case unix.ENODEV: // unmounted or aborted
			r.queue.waiting.Add(-1)
			r.c.die()
			return
		default:
			// Callers get ENOTCONN when the last reader of the device has gone.
			r.queue.waiting.Add(-1)
			r.c.log.Error("requests cannot be read", slog.String("op", "read"), slog.Any("err", e))
			if r.ring != nil && r.call.unique.Load() != 0 {
				r.c.spawnReader(r.queue) // the queue has no other reader
			}
			return
		}
		r.handle(n)
		switch {
		case r.ring == nil:
			r.call.answered.Store(r.call.unique.Load())
		case r.due != 0:
			r.commit(0, fuse.EIO) // the kernel waits for an answer to every request
		}
		if r.c.retire(r.queue) {
			return
		}
	}
}

// read waits for a request. (syscall.Read declares to the race detector that what came before the
// caller's system call is seen.)
func (r *reader) read() (int, syscall.Errno) {
	if r.warm > 0 {
		if r.warm--; r.warm == 0 {
			r.trim()
		}
	}
	if r.ring != nil {
		return r.fetch()
	}
	for {
		n, err := r.spin()
		if err == nil {
			return n, 0
		}
		var e syscall.Errno
		if !errors.As(err, &e) {
			return 0, syscall.EIO
		}
		if e != unix.EAGAIN {
			return 0, e
		}
		if e := r.sleep(); e != 0 {
			return 0, e
		}
	}
}

// handle answers one request, or defers it.
func (r *reader) handle(n int) {
	q := &r.q
	st := decode(r.in[:n], q)
	last := false
	if r.queue.waiting.Add(-1) == 0 && (q.op == nil || !q.op.quick) {
		last = !r.c.spawnReader(r.queue)
	}
	if !r.begin(q, n) {
		return
	}
	size := 0
	if st == fuse.OK && q.op.waits && last {
		// No further reader is available: the operation must not take this one.
		if r.call.again = r.c.mayDefer(); !r.call.again {
			st = fuse.EAGAIN
			r.c.once(&r.c.crowded, "too many calls wait; further ones get EAGAIN", q.op.name)
		}
	}
	if !r.call.again {
		size, st = r.process(q, st)
	}
	if r.call.again {
		if r.detach() {
			return
		}
		r.call.again, st = false, fuse.EAGAIN
	}
	r.conclude(q, size, st)
	if n > kept || size > kept {
		r.warm = cooling
	}
}

// begin counts a request; false means that it has no header to answer to.
func (r *reader) begin(q *query, n int) bool {
	if q.header == nil {
		r.c.log.Error("short request", slog.String("op", "read"), slog.Int("bytes", n))
		return false
	}
	c := &r.counts[min(q.header.Opcode, uint32(len(r.counts)-1))]
	c.Store(c.Load() + 1)
	r.call.begin(q.header.Unique)
	return true
}

// process calls the handler of a request that was decoded with the status st.
func (r *reader) process(q *query, st fuse.Status) (int, fuse.Status) {
	switch {
	case st == fuse.OK && q.header.NodeId == probeNode:
		return answerProbe(r, q)
	case st == fuse.OK:
		return r.dispatch(q)
	case q.op != nil:
		r.c.once(&r.c.garbled, "its form is not the protocol's", q.op.name)
	}
	return 0, st
}

// conclude answers a request that was handled.
func (r *reader) conclude(q *query, size int, st fuse.Status) {
	if q.op == nil || (st == fuse.ENOSYS && !q.op.allowENOSYS) {
		if q.op == nil {
			r.c.unknown(q.header.Opcode)
		}
		st = fuse.EIO
	}
	if (q.op == nil || !q.op.silent) && st != silence {
		r.reply(q.header.Unique, size, st)
	}
}

// dispatch calls the handler. After a panic it is unknown which locks are held and whose file
// system identity the thread has: unless OnPanic is set, the process exits, as after any
// panic, and the kernel answers ENOTCONN.
func (r *reader) dispatch(q *query) (size int, st fuse.Status) {
	defer func() {
		if v := recover(); v != nil {
			r.c.log.Error("panic in a file system handler", slog.String("op", q.op.name), slog.Any("err", v), slog.String("stack", string(debug.Stack())))
			if r.c.opts.OnPanic == nil {
				panic(v)
			}
			r.c.opts.OnPanic(v)
			size, st = 0, fuse.EIO
		}
	}()
	r.call.above = r.c.opts.Above != 0 && q.header.Gid == r.c.opts.Above
	if r.call.above {
		q.header.Gid = 0
	}
	return q.op.do(r, q)
}

// reply writes the answer. The kernel takes errno numbers below 512 only, and
// would leave the caller waiting after any other.
func (r *reader) reply(unique uint64, size int, st fuse.Status) {
	if st != fuse.OK {
		size = 0
		if st < 0 || st >= 512 {
			st = fuse.EIO
		}
	}
	if r.due != 0 {
		r.commit(size, st)
		return
	}
	h := (*fuse.OutHeader)(unsafe.Pointer(unsafe.SliceData(r.out)))
	*h = fuse.OutHeader{Length: uint32(replySize + size), Status: -int32(st), Unique: unique}
	if _, err := syscall.Write(r.c.fd, r.out[:h.Length]); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENODEV) {
		// ENOENT: interrupted; ENODEV: unmounted meanwhile.
		r.c.log.Warn("answer not taken", slog.String("op", "write"), slog.Any("err", err))
	}
}

// body is the place of the answer after its header.
func (r *reader) body() []byte { return r.out[replySize:] }

// body is the zeroed answer of a handler, and its size.
func body[T any](r *reader) (*T, int) {
	p := (*T)(unsafe.Pointer(unsafe.SliceData(r.body())))
	var zero T
	*p = zero
	return p, int(unsafe.Sizeof(zero))
}

// dest is the buffer for as many bytes as were requested.
func (r *reader) dest(size uint32) ([]byte, fuse.Status) {
	if int64(size) > int64(r.c.opts.MaxWrite) {
		return nil, fuse.EIO
	}
	return r.body()[:size], fuse.OK
}
