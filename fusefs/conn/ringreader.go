package conn

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/apart"
)

// Requests by io_uring (Documentation/filesystems/fuse/fuse-io-uring.rst): each processor has a
// queue, and a thread of the same processor answers a caller; one system call passes an answer to
// the kernel and fetches the next request. Forgets, interrupts and notifications stay with
// /dev/fuse.

const (
	commandRegister = 1 // FUSE_IO_URING_CMD_REGISTER
	commandCommit   = 2 // FUSE_IO_URING_CMD_COMMIT_AND_FETCH

	// maxQueues is the largest number of processors for which queues are made: each has threads
	// of its own.
	maxQueues = 16
	// leastReaders is the minimum for a queue.
	leastReaders = 3
)

// ringHeader is struct fuse_uring_req_header.
type ringHeader struct {
	inOut   [128]byte // the header of the request, then of the answer
	fixed   [128]byte // the operation's fixed part
	_       uint64
	commit  uint64
	payload uint32 // bytes of what follows the fixed part, then of the answer's body
	_       uint32
	_       uint64
}

// ringCommand is struct fuse_uring_cmd_req.
type ringCommand struct {
	_      uint64
	commit uint64
	queue  uint16
	_      [6]byte
}

// makeQueues makes a queue with a reader for every processor there may be.
func (c *Conn) makeQueues() error {
	n, err := processors()
	if err != nil {
		return err
	}
	for cpu := range n {
		// Readers that wait on one processor take no requests from the others.
		q := &queue{cpu: cpu, limit: int32(max(c.opts.Readers/n, leastReaders))}
		q.entries.hand = make(chan *reader, q.limit)
		if q.first, err = newRingReader(c, q); err != nil {
			c.dropQueues()
			return err
		}
		c.queues = append(c.queues, q)
	}
	return nil
}

// Rings returns why this machine cannot receive requests by io_uring, should the kernel support
// it; nil if it can.
func Rings() error {
	if _, err := processors(); err != nil {
		return err
	}
	r, err := newRing(1)
	if err != nil {
		return err
	}
	return r.close()
}

// dropQueues frees the queues that have no running reader.
func (c *Conn) dropQueues() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, q := range c.queues {
		if q.first != nil {
			c.free(q.first)
		}
	}
	c.queues = nil
}

// processors is the kernel's count: processor numbers are below that.
func processors() (int, error) {
	b, err := os.ReadFile("/sys/devices/system/cpu/possible") //nolint:forbidigo // the kernel's
	if err != nil {
		return 0, err
	}
	return countProcessors(strings.TrimSpace(string(b)))
}

func countProcessors(list string) (int, error) {
	last, ok := strings.CutPrefix(list, "0-")
	if list == "0" {
		last, ok = "0", true
	}
	n, err := strconv.Atoi(last)
	if !ok || err != nil || n < 0 || n >= maxQueues {
		return 0, fmt.Errorf("processors %q: up to %d in one row can have queues", list, maxQueues)
	}
	return n + 1, nil
}

func newRingReader(c *Conn, q *queue) (*reader, error) {
	ring, err := newRing(1)
	if err != nil {
		return nil, err
	}
	r, err := newReader(c)
	if err != nil {
		return nil, errAnd(err, ring.close())
	}
	r.queue, r.ring = q, ring
	return r, nil
}

// head is at the end of the reader's memory, followed by the two addresses.
func (r *reader) head() *ringHeader {
	return (*ringHeader)(unsafe.Pointer(&r.mem[len(r.mem)-page]))
}

// join makes the ring this thread's and puts the reader into its queue.
func (r *reader) join() bool {
	r.c.pinToCPU(r.queue.cpu)
	err := r.ring.enable()
	if err == nil && r.uncounted {
		r.uncounted = false
		r.queue.entries.addBare()
		return true
	}
	if err == nil {
		err = r.register()
	}
	if err != nil {
		r.queue.waiting.Add(-1)
		r.c.log.Error("requests cannot be taken", slog.String("op", "serve"), slog.Any("err", err))
		if r.queue.readers.Load() == 1 {
			r.c.die() // the kernel waits for the first reader of each queue before it sends any request
		}
		return false
	}
	if r.queue.readers.Load() > 1 {
		r.c.running.Go(func() { r.c.ask(r.queue.cpu) })
	}
	return true
}

// pinToCPU ties the goroutine to a thread, until both end, and the thread to a
// processor.
func (c *Conn) pinToCPU(cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		// It may not run on that processor; then its callers do not, either.
		c.log.Debug("thread is not tied to its processor", slog.String("op", "sched_setaffinity"), slog.Any("err", err))
	}
}

// ask triggers a request on a processor. The kernel gives a new entry no request that waits in its
// queue already, only the next one; with the answer to that it sends the rest.
func (c *Conn) ask(cpu int) {
	err := apart.Do(context.Background(), func() error { // it ends with the connection at the latest
		c.pinToCPU(cpu)
		var st unix.Statfs_t
		return unix.Statfs(c.opts.Mountpoint, &st)
	})
	if err != nil {
		c.log.Debug("nothing was asked", slog.String("op", "statfs"), slog.Any("err", err))
	}
}

// kick is ask for the processor of this thread, without waiting. node is a regular file that the
// kernel knows; a notification to retrieve none of its data is answered by a request. It returns
// false if the kernel does not know it.
func (c *Conn) kick(node uint64) bool {
	msg := struct {
		fuse.OutHeader
		fuse.NotifyRetrieveOut
	}{NotifyRetrieveOut: fuse.NotifyRetrieveOut{NotifyUnique: c.kicks.Add(kickStep), Nodeid: node}}
	msg.OutHeader.Length = uint32(unsafe.Sizeof(msg))
	msg.Status = -fuse.NOTIFY_RETRIEVE_CACHE
	return c.notify(unsafe.Pointer(&msg), unsafe.Sizeof(msg)) == 0
}

// firstKick is above the kernel's own numbers of requests, which are even, as these are.
const (
	firstKick = 1 << 62
	kickStep  = 2
)

// register puts the reader into its queue.
func (r *reader) register() error {
	h := r.head()
	vec := (*[2]unix.Iovec)(unsafe.Add(unsafe.Pointer(h), 1024))
	vec[0].Base, vec[1].Base = (*byte)(unsafe.Pointer(h)), unsafe.SliceData(r.body())
	vec[0].SetLen(sizeOf[ringHeader]())
	vec[1].SetLen(len(r.body()))
	s := r.ring.prepare(r.c.fd, commandRegister)
	s.addr, s.len = uint64(uintptr(unsafe.Pointer(vec))), uint32(len(vec))
	(*ringCommand)(unsafe.Pointer(&s.command)).queue = uint16(r.queue.cpu)
	return r.ring.submit()
}

// fetch takes what was answered to the kernel and waits for the next request,
// which is then in the same form as one read from the device.
func (r *reader) fetch() (int, syscall.Errno) {
	leaveToKernel()
	for {
		var limit time.Duration
		if r.warm > 0 {
			limit = coolWait * time.Millisecond
		}
		done, e := r.ring.wait(limit)
		switch {
		case e == unix.ETIME:
			r.warm = 0
			r.trim()
		case e != 0:
			return 0, e
		case done.res == 0:
			takeFromKernel()
			return r.take(), 0
		default:
			if e = syscall.Errno(-done.res); connectionEnded(e) {
				return 0, unix.ENODEV
			}
			r.c.log.Error("command not taken by the kernel", slog.String("op", "io_uring"), slog.Any("err", e))
			return 0, unix.EIO
		}
	}
}

// connectionEnded reports that a command ended because of an unmount or an abort.
func connectionEnded(e syscall.Errno) bool {
	return e == unix.ENOTCONN || e == unix.ECANCELED || e == unix.ECONNABORTED
}

// take puts the parts of a request together; 0 if they do not fit.
func (r *reader) take() int {
	h := r.head()
	r.due = h.commit
	in := (*fuse.InHeader)(unsafe.Pointer(&h.inOut))
	fixed := int64(in.Length) - int64(headerSize) - int64(h.payload)
	if fixed < 0 || fixed > int64(len(h.fixed)) || int64(in.Length) > int64(len(r.in)) {
		return 0
	}
	n := copy(r.in, h.inOut[:headerSize])
	n += copy(r.in[n:], h.fixed[:fixed])
	return n + copy(r.in[n:], r.body()[:h.payload])
}

// commit prepares the answer, which also fetches the next request. A request with a goroutine of
// its own only gets its answer here: a thread with a ring commits it.
func (r *reader) commit(size int, st fuse.Status) {
	h := r.head()
	*(*fuse.OutHeader)(unsafe.Pointer(&h.inOut)) = fuse.OutHeader{Length: uint32(replySize + size), Status: -int32(st), Unique: r.due}
	h.payload = uint32(size)
	if r.ring == nil {
		return
	}
	r.ring.prepareCommit(r.c.fd, r.queue.cpu, r.due, 0)
	r.due = 0
	r.call.given.Store(r.call.unique.Load()) // after what prepare did: see settled
}

// prepareCommit prepares the command that takes an answer to the kernel. user is in the completion
// that brings the next request.
func (r *ring) prepareCommit(fd, cpu int, request, user uint64) {
	s := r.prepare(fd, commandCommit)
	s.user = user
	c := (*ringCommand)(unsafe.Pointer(&s.command))
	c.commit, c.queue = request, uint16(cpu)
}
