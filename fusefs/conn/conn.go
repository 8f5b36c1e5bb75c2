package conn

import (
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"
)

// Conn is one mount and its connection. Mount makes it, Serve runs it.
type Conn struct {
	fs   FileSystem
	opts Options
	log  *slog.Logger
	fd   int
	caps uint64 // granted

	dev     queue    // of /dev/fuse itself
	queues  []*queue // one per processor, if requests come by io_uring
	running sync.WaitGroup
	mu      sync.Mutex
	readers []*reader  // and deferred requests
	spare   []*reader  // ended, with their memory; at most spares
	past    [64]uint64 // requests of readers that have ended, by opcode

	slots    chan struct{} // of deferred requests that run
	deferred atomic.Int32  // all deferred requests
	kicks    atomic.Uint64 // numbers of provoked requests
	late     lateRing

	use    sync.RWMutex // of fd by other goroutines than readers
	closed bool

	dying sync.Once
	dead  chan struct{}
	done  chan struct{}

	lingers atomic.Bool // a reader is about to sleep, and polls once more
	probing atomic.Bool
	probe   string

	crowded, garbled atomic.Bool
	strange          [64]atomic.Bool
}

func newConn(fs FileSystem, o Options) *Conn {
	c := &Conn{fs: fs, opts: o, log: o.Log, fd: -1, dead: make(chan struct{}), done: make(chan struct{}), slots: make(chan struct{}, workers), probe: ".polis-probe-" + rand.Text()}
	c.kicks.Store(firstKick)
	c.dev.cpu, c.dev.limit = -1, int32(o.Readers)
	return c
}

// Serve answers requests until the mount is gone, then closes the connection. It returns at once
// if no reader can be started. Call it once.
func (c *Conn) Serve() error {
	defer close(c.done)
	defer c.close()
	r, err := newReader(c)
	if err != nil {
		c.dropQueues()
		return fmt.Errorf("conn: serve %s: %w", c.opts.Mountpoint, err)
	}
	c.dev.readers.Add(1)
	c.start(r)
	for _, q := range c.queues {
		q.readers.Add(1)
		q.entries.add()
		c.start(q.first)
		q.first = nil
	}
	c.running.Wait()
	c.die()
	for _, q := range c.queues {
		q.entries.drop(c)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.spare {
		c.free(r)
	}
	c.spare = nil
	return nil
}

// Done is closed when Serve has ended.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Dead is closed when the kernel has ended the connection; requests may still be with their
// handlers, but their answers are discarded.
func (c *Conn) Dead() <-chan struct{} { return c.dead }

// Alive queries the kernel whether the connection still exists; this causes no request.
func (c *Conn) Alive() bool {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed {
		return false
	}
	found, err := poll(c.fd, 0, 0)
	return err == nil && found&unix.POLLERR == 0
}

// Granted are the capabilities (fuse.CAP_*) that kernel and server agreed on.
func (c *Conn) Granted() uint64 { return c.caps }

// Counts are the requests taken so far, by the protocol's names.
func (c *Conn) Counts() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]uint64{}
	for op := range c.past {
		n := c.past[op]
		for _, r := range c.readers {
			n += r.counts[op].Load()
		}
		if n > 0 {
			out[nameOf(uint32(op))] = n
		}
	}
	return out
}

// Taken is the number of requests taken so far, but for what the kernel has forgotten.
func (c *Conn) Taken() (n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for op := range c.past {
		if op == opForget || op == opBatchForget {
			continue
		}
		n += c.past[op]
		for _, r := range c.readers {
			n += r.counts[op].Load()
		}
	}
	return n
}

func nameOf(opcode uint32) string {
	if int(opcode) < len(operations) && operations[opcode].name != "" {
		return operations[opcode].name
	}
	return fmt.Sprintf("OPCODE-%d", opcode)
}

func (c *Conn) interrupt(unique uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.readers {
		if r.call.interrupt(unique) {
			return true
		}
	}
	return false
}

func (c *Conn) die() { c.dying.Do(func() { close(c.dead) }) }

func (c *Conn) close() {
	c.die()
	c.use.Lock()
	defer c.use.Unlock()
	if c.closed {
		return
	}
	c.closed = true
	if err := unix.Close(c.fd); err != nil {
		c.log.Warn("connection not closed", slog.String("op", "close"), slog.Any("err", err))
	}
}

// with runs f on the descriptor; it cannot be closed meanwhile.
func (c *Conn) with(f func(fd int) syscall.Errno) syscall.Errno {
	c.use.RLock()
	defer c.use.RUnlock()
	if c.closed {
		return syscall.ENODEV
	}
	return f(c.fd)
}

// once logs what would otherwise fill the log.
func (c *Conn) once(said *atomic.Bool, why, op string) {
	if !said.Swap(true) {
		c.log.Warn("request refused", slog.String("op", op), slog.String("why", why))
	}
}

func (c *Conn) unknown(opcode uint32) {
	c.once(&c.strange[min(opcode, uint32(len(c.strange)-1))], "the operation is not known", nameOf(opcode))
}
