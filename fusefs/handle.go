package fusefs

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// handle is one open file of the view.
type handle struct {
	node     *node
	fd       int
	writable bool   // opened for writing or truncated by the open
	ticket   Ticket // of a writable open, given back at RELEASE
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
	defer t.mu.RUnlock()
	return t.m[fh]
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
		h.close()
	}
}

func (h *handle) close() {
	if h.fd >= 0 {
		closeFD(h.fd)
	}
	if h.ticket != nil {
		h.ticket.Done()
	}
}

type ioMode int

const (
	ioCached      ioMode = iota // the kernel's page cache, READ and WRITE reach us
	ioPassthrough               // the kernel reads and writes the backing file
)

// nodeIO is what an inode's open files share. The mode is chosen by the first
// open and kept until the last release: the kernel answers EIO when cached and
// passthrough opens of one inode meet.
type nodeIO struct {
	mu      sync.Mutex
	handles []*handle
	writers int
	mode    ioMode
	backing int32 // backing id, kept until FORGET; 0 = none
	seen    stamp // what the page cache holds, if anything
	// pin is an O_PATH descriptor of an object whose last name was removed
	// while the kernel still knew it; 0 = none. Callers that had resolved the
	// name, or hold it O_PATH, can still use it, as on any file system.
	pin int
}

// stamp tells whether a file changed since it was cached.
type stamp struct {
	size         uint64
	msec, csec   int64
	mnsec, cnsec uint32
}

func stampOf(st *unix.Statx_t) stamp {
	return stamp{st.Size, st.Mtime.Sec, st.Ctime.Sec, st.Mtime.Nsec, st.Ctime.Nsec}
}

// writing says whether a writable open exists.
func (io *nodeIO) writing() bool {
	io.mu.Lock()
	defer io.mu.Unlock()
	return io.writers > 0
}

// dup duplicates the descriptor of any open file, or the pin.
func (io *nodeIO) dup() (int, bool) {
	io.mu.Lock()
	defer io.mu.Unlock()
	from := io.pin
	if len(io.handles) > 0 {
		from = io.handles[0].fd
	}
	if from <= 0 {
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3)
	return fd, err == nil
}

// pin keeps an object whose last name is about to go. Pins count as open
// files; when there are too many the object is simply lost, as on NFS.
func (fs *FS) pin(n *node, dir int, name string) {
	if n == nil || n.isDir() || fs.files.reserve() != 0 {
		return
	}
	fd, e := openAt(dir, name, unix.O_PATH, 0)
	if e == 0 {
		if st, e := statAt(fd, ""); e == 0 && n.is(&st) {
			n.io.mu.Lock()
			fd, n.io.pin = n.io.pin, fd
			n.io.mu.Unlock()
		}
	}
	if fd > 0 {
		closeFD(fd)
	}
	if e != 0 || fd > 0 {
		fs.files.unreserve()
	}
}

func (fs *FS) unpin(n *node) {
	if n == nil {
		return
	}
	n.io.mu.Lock()
	fd := n.io.pin
	n.io.pin = 0
	n.io.mu.Unlock()
	if fd > 0 {
		closeFD(fd)
		fs.files.unreserve()
	}
}
