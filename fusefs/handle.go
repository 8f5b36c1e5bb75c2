package fusefs

import (
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"polis/fusefs/backing"
)

// handle is one open file of the view.
type handle struct {
	node     *node
	fd       int    // -1 for one that reads by its inode's descriptor; see lazy.go
	writable bool   // opened for writing or truncated by the open
	mappable bool   // opened for reading and writing: mmap(2) allows no shared mapping else
	made     bool   // by this open: the kernel had nothing of it before
	ticket   Ticket // of a writable open, given back at RELEASE
	// generation is when the open was last found to be within the rules; see revoke.go.
	generation atomic.Uint64

	// Of the inode's list; guarded by node.io.mu.
	next, prev *handle
	ended      bool // released: the ticket may be somebody else's
}

// handleTable gives open files their numbers and bounds how many there are.
type handleTable struct {
	mu    sync.RWMutex
	limit int
	files int
	next  uint64
	m     map[uint64]*handle
}

func (t *handleTable) init(limit int) {
	t.limit, t.m, t.next = limit, map[uint64]*handle{}, 1
}

// reserve counts one descriptor before it is opened.
func (t *handleTable) reserve() syscall.Errno {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.files >= t.limit {
		return syscall.ENFILE
	}
	t.files++
	return 0
}

// fullEvery is how often at most OnFull is called.
const fullEvery = int64(time.Second)

// reserve counts an open of the view, and reports when there are too many.
func (fs *FS) reserve(h *fuse.InHeader) syscall.Errno {
	e := fs.files.reserve()
	if e == 0 || fs.cfg.OnFull == nil {
		return e
	}
	now, last := time.Since(fs.began).Nanoseconds(), fs.fullAt.Load()
	if (last == 0 || now-last >= fullEvery) && fs.fullAt.CompareAndSwap(last, now) {
		fs.cfg.OnFull(callerOf(h), fs.files.limit)
	}
	return e
}

func (t *handleTable) unreserve() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files--
}

// add registers a handle whose descriptor was reserved.
func (t *handleTable) add(h *handle) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	fh := t.next
	t.next++
	t.m[fh] = h
	return fh
}

func (t *handleTable) get(fh uint64) *handle {
	t.mu.RLock()
	h := t.m[fh]
	t.mu.RUnlock()
	return h
}

// take removes a handle; its descriptor is closed by the caller.
func (t *handleTable) take(fh uint64) *handle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.m[fh]
	if h != nil {
		delete(t.m, fh)
		t.files--
	}
	return h
}

// closeAll ends what was still open when the mount went away.
func (t *handleTable) closeAll() {
	t.mu.Lock()
	left := t.m
	t.m, t.files = map[uint64]*handle{}, 0
	t.mu.Unlock()
	for _, h := range left {
		h.node.io.remove(h)
		h.close()
	}
}

func (h *handle) close() {
	if h.fd >= 0 {
		backing.Close(h.fd)
	}
	if h.ticket != nil {
		h.ticket.Done()
	}
}
