package fusefs

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

type ioMode uint8

const (
	ioCached      ioMode = iota // the kernel's page cache, READ and WRITE reach us
	ioPassthrough               // the kernel reads and writes the backing file
)

// nodeIO is what an inode's open files share. The mode is chosen by the first
// open and kept until the last release: the kernel answers EIO when cached and
// passthrough opens of one inode meet.
type nodeIO struct {
	mu   sync.Mutex
	open *handle // the open files
	// seen is what the page cache holds, if anything, where others may change
	// the file; before is how the file was when the first of its mappers
	// opened it.
	seen, before *stamp

	backing int32 // backing id, kept until FORGET; 0 = none
	// pin is an O_PATH descriptor of an object whose last name was removed
	// while the kernel still knew it; 0 = none. Callers that had resolved the
	// name, or hold it O_PATH, can still use it, as on any file system.
	pin     int32
	data    int32 // descriptor by which lazy handles read; 0 = none
	lazy    int32 // handles that have no descriptor
	writers int32
	// mappers are the writers that may store through a mapping, which nobody
	// notices; what write(2) changes, the kernel keeps account of.
	mappers int32
	mode    ioMode

	size    uint32 // in bytes, when it was last looked at and is small
	small   bool   // small enough for the page cache
	pushed  bool   // all of its pages were given to the kernel since it last dropped them
	current bool   // looked at since it was last invalidated
	given   bool   // the kernel may keep attributes it was told
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

// looked records that the file was looked at by its name, and whether the
// kernel will be told of its attributes for longer than this once. It is false
// while somebody may store through a mapping.
func (io *nodeIO) looked(st *unix.Statx_t, given bool) bool {
	io.mu.Lock()
	defer io.mu.Unlock()
	io.small, io.current = st.Size <= smallFile, true
	if io.small {
		io.size = uint32(st.Size)
	}
	if io.mappers > 0 {
		return false
	}
	io.given = io.given || given
	return true
}

// writing says whether a writable open exists.
func (io *nodeIO) writing() bool {
	io.mu.Lock()
	defer io.mu.Unlock()
	return io.writers > 0
}

// doubt makes the next open look at the file again.
func (io *nodeIO) doubt() {
	io.mu.Lock()
	defer io.mu.Unlock()
	io.current, io.pushed = false, false
}

// insert and remove keep the list of open files. remove closes the descriptor
// of lazy handles with the last of them.
func (io *nodeIO) insert(h *handle) {
	if h.next = io.open; h.next != nil {
		h.next.prev = h
	}
	io.open = h
	if h.fd < 0 {
		io.lazy++
	}
	if h.writable {
		io.writers++
	}
	if h.mappable {
		io.mappers++
	}
}

func (io *nodeIO) remove(h *handle) {
	io.mu.Lock()
	defer io.mu.Unlock()
	io.unlink(h)
}

func (io *nodeIO) unlink(h *handle) {
	if h.next != nil {
		h.next.prev = h.prev
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else if io.open == h {
		io.open = h.next
	}
	h.next, h.prev, h.ended = nil, nil, true
	if h.writable {
		io.writers--
	}
	if h.mappable {
		io.mappers--
	}
	if h.fd < 0 {
		if io.lazy--; io.lazy == 0 && io.data > 0 {
			backing.Close(int(io.data))
			io.data = 0
		}
	}
}

// dup duplicates a descriptor of the object, if there is one.
func (io *nodeIO) dup() (int, bool) {
	io.mu.Lock()
	defer io.mu.Unlock()
	from := io.anyFD()
	if from <= 0 {
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3)
	return fd, err == nil
}

func (io *nodeIO) anyFD() int {
	if io.pin > 0 {
		return int(io.pin)
	}
	if io.data > 0 {
		return int(io.data)
	}
	for h := io.open; h != nil; h = h.next {
		if h.fd > 0 {
			return h.fd
		}
	}
	return -1
}

// pin keeps an object whose last known name is about to go, and tells how it
// is. Pins count as open files; when there are too many the object is simply
// lost, as on NFS, unless somebody has it open.
func (fs *FS) pin(n *node, dir int, name string) (unix.Statx_t, syscall.Errno) {
	fd, e := backing.OpenAt(dir, name, unix.O_PATH, 0)
	if e != 0 {
		return unix.Statx_t{}, e
	}
	st, e := backing.StatAt(fd, "")
	if e != 0 || !n.is(&st) || n.isDir() {
		backing.Close(fd)
		return st, e
	}
	io := &n.io
	io.mu.Lock()
	defer io.mu.Unlock()
	switch {
	case io.anyFD() > 0:
	case io.lazy > 0: // these have counted the descriptor already
		flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
		data, err := unix.Open(backing.ProcPath(fd), flags, 0)
		if err == nil {
			io.data = int32(data)
		}
		e = backing.Errno(err) // better to keep the name than to lose an open file
	case fs.files.reserve() == 0:
		io.pin, fd = int32(fd), -1
	}
	if fd >= 0 {
		backing.Close(fd)
	}
	return st, e
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
		backing.Close(int(fd))
		fs.files.unreserve()
	}
}
