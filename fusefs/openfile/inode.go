package openfile

import (
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// SmallFile is the size in bytes up to which a file that is first opened
// read-only goes through the kernel's page cache instead of passthrough.
const SmallFile = 1 << 20

type mode uint8

const (
	cached      mode = iota // the kernel's page cache, READ and WRITE reach us
	passthrough             // the kernel reads and writes the backing file
)

// Inode is what the open files of one inode share. The mode is chosen by the first
// open and kept until the last release: the kernel answers EIO when cached and
// passthrough opens of one inode meet. The zero value has no open file. There are as
// many as inodes that the kernel knows, so what only few need is behind a pointer.
type Inode struct {
	mu      sync.Mutex
	use     *use   // nil if it would be the zero value
	size    uint32 // in bytes, when it was last stat'ed; notSmall if it is no small file
	mode    mode
	pushed  bool // all of its pages were given to the kernel since it last dropped them
	current bool // stat'ed since it was last invalidated
	given   bool // the kernel may keep the attributes that it got
}

// notSmall is the size of what is not small enough for the page cache.
const notSmall = SmallFile + 1

// use is what is known of an inode that is open, or was.
type use struct {
	open *Handle // the open files
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
}

// change returns what is known, to be changed. settle is called afterwards.
func (i *Inode) change() *use {
	if i.use == nil {
		i.use = &use{}
	}
	return i.use
}

func (i *Inode) settle() {
	if i.use != nil && *i.use == (use{}) {
		i.use = nil
	}
}

func (i *Inode) setSize(size uint64) { i.size = uint32(min(size, notSmall)) }

// stamp shows by comparison whether a file changed since it was cached.
type stamp struct {
	size         uint64
	msec, csec   int64
	mnsec, cnsec uint32
}

func stampOf(st *unix.Statx_t) stamp {
	return stamp{st.Size, st.Mtime.Sec, st.Ctime.Sec, st.Mtime.Nsec, st.Ctime.Nsec}
}

// SetAttr records the attributes that were read by the file's name. given reports whether the
// kernel gets them for longer than this once. The result reports whether it may: not
// while a program may store through a mapping.
func (i *Inode) SetAttr(st *unix.Statx_t, given bool) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.setSize(st.Size)
	i.current = true
	if i.use != nil && i.use.mappers > 0 {
		return false
	}
	i.given = i.given || given
	return true
}

// Writing reports whether a writable open exists.
func (i *Inode) Writing() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.use != nil && i.use.writers > 0
}

// Passthrough reports whether the kernel reads and writes the backing file itself.
func (i *Inode) Passthrough() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.use != nil && i.use.open != nil && i.mode == passthrough
}

// Direct says of a handle that is not released whether the kernel serves it
// without asking, and whether its lease is lost.
func (i *Inode) Direct(h *Handle) (direct, lost bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.mode == passthrough && !h.ended, !h.ended && h.lost()
}

// Invalidate makes the next open stat the file again.
func (i *Inode) Invalidate() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.current, i.pushed = false, false
}

// insert, Remove and unlink keep the list of open files. unlink closes the descriptor
// of lazy handles with the last of them.
func (i *Inode) insert(h *Handle) {
	u := i.change()
	if h.next = u.open; h.next != nil {
		h.next.prev = h
	}
	u.open = h
	if h.FD < 0 {
		u.lazy++
	}
	if h.Writable {
		u.writers++
	}
	if h.Mappable {
		u.mappers++
	}
}

// Remove takes a handle out of the list when the mount has gone.
func (i *Inode) Remove(h *Handle) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.unlink(h)
	i.settle()
}

func (i *Inode) unlink(h *Handle) {
	u := i.change()
	if h.next != nil {
		h.next.prev = h.prev
	}
	if h.prev != nil {
		h.prev.next = h.next
	} else if u.open == h {
		u.open = h.next
	}
	h.next, h.prev, h.ended = nil, nil, true
	if h.Writable {
		u.writers--
	}
	if h.Mappable {
		u.mappers--
	}
	if h.FD < 0 {
		if u.lazy--; u.lazy == 0 && u.data > 0 {
			backing.Close(int(u.data))
			u.data = 0
		}
	}
}

// Dup duplicates a descriptor of the object, if there is one.
func (i *Inode) Dup() (int, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	from := i.anyFD()
	if from <= 0 {
		return -1, false
	}
	fd, err := unix.FcntlInt(uintptr(from), unix.F_DUPFD_CLOEXEC, 3)
	return fd, err == nil
}

func (i *Inode) anyFD() int {
	u := i.use
	switch {
	case u == nil:
		return -1
	case u.pin > 0:
		return int(u.pin)
	case u.data > 0:
		return int(u.data)
	}
	for h := u.open; h != nil; h = h.next {
		if h.FD > 0 {
			return h.FD
		}
	}
	return -1
}

// Pin keeps an object whose last known name is about to go. fd is an O_PATH
// descriptor of it, and is taken over. Pins count as open files; when there are too
// many the object is simply lost, as on NFS, unless a program has it open.
func (i *Inode) Pin(fd int, b *Budget) (e syscall.Errno) {
	i.mu.Lock()
	defer i.mu.Unlock()
	switch {
	case i.anyFD() > 0:
	case i.use != nil && i.use.lazy > 0: // these have counted the descriptor already
		flags := unix.O_RDONLY | unix.O_NONBLOCK | unix.O_CLOEXEC
		data, err := unix.Open(backing.ProcPath(fd), flags, 0)
		if err == nil {
			i.use.data = int32(data)
		}
		e = backing.Errno(err) // better to keep the name than to lose an open file
	case b.Reserve() == 0:
		i.change().pin, fd = int32(fd), -1
	}
	if fd >= 0 {
		backing.Close(fd)
	}
	return e
}

// Unpin lets go of what Pin kept.
func (i *Inode) Unpin(b *Budget) {
	i.mu.Lock()
	fd := int32(0)
	if i.use != nil {
		fd, i.use.pin = i.use.pin, 0
		i.settle()
	}
	i.mu.Unlock()
	if fd > 0 {
		backing.Close(int(fd))
		b.Unreserve()
	}
}
