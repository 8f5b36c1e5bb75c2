package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
)

// A lazy handle is an open file without a descriptor. Where the view is the
// only way to a file, and the file was looked at and found readable since
// anything could have changed that, opening it for reading needs no look at the
// disk: its pages are in the kernel or will be asked for, and then is early
// enough to open it. What could come in between is dealt with where it happens:
// a name that goes takes a descriptor first (pin), a name that moves takes the
// node with it.

// openLazy tries to open a file that way; false means that it has to be opened
// in earnest. What it does not know it leaves to the other way.
func (fs *FS) openLazy(call request, h *handle, in *fuse.OpenIn, out *fuse.OpenOut) bool {
	const heavy = unix.O_ACCMODE | unix.O_TRUNC | unix.O_NOATIME
	const kept = KeepName | KeepData
	n := h.node
	if in.Flags&heavy != unix.O_RDONLY || Keep(n.keep.Load())&kept != kept {
		return false
	}
	start := time.Now()
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	if n.root() == fs.lower {
		return false // somebody else changes it
	}
	if !fs.holds(n.verdict.Load(), verdictReadable) {
		return false
	}
	if _, named := fs.tree.nth(n, 0); !named {
		return false
	}
	io := &n.io
	io.mu.Lock()
	defer io.mu.Unlock()
	if !io.current || !io.small || io.open != nil && io.mode != ioCached {
		return false
	}
	if io.open == nil && !io.pushed {
		fs.prefillCache(call, n)
	}
	io.mode = ioCached
	io.insert(h)
	out.Fh = fs.files.add(h)
	out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	fs.guard.Count(OpOpenRead, false, 0, time.Since(start).Nanoseconds())
	return true
}

// prefillCache gives the kernel the pages of a small file that is being opened, as
// who opens such a file mostly reads it, and all of it. It saves the READ; and a
// stat of the file afterwards costs nothing either, for after a READ the kernel
// asks how old the time of the last access is. ns and the inode's io.mu are
// held: who opens the file for writing comes before or after.
func (fs *FS) prefillCache(call request, n *node) {
	io := &n.io
	io.pushed = true // or not worth another try
	if io.size == 0 || io.size > conn.MaxPush {
		return
	}
	fd, st, e := fs.openNamed(n, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return // the caller's read will say it
	}
	if st.Size == uint64(io.size) {
		call.Push(n.id, fd, int(io.size))
	}
	backing.Close(fd)
}

// reading returns the descriptor a handle reads by. It is good until the handle
// is released.
func (fs *FS) reading(h *handle) (int, syscall.Errno) {
	if h.fd >= 0 {
		return h.fd, 0
	}
	io := &h.node.io
	io.mu.Lock()
	fd := int(io.data)
	io.mu.Unlock()
	if fd > 0 {
		return fd, 0
	}
	fs.ns.RLock()
	defer fs.ns.RUnlock()
	fd, _, e := fs.open(h.node, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return -1, e
	}
	io.mu.Lock()
	defer io.mu.Unlock()
	io.pushed = false // the kernel had to ask: it has let go of pages
	if io.data > 0 {  // somebody was faster
		backing.Close(fd)
		return int(io.data), 0
	}
	io.data = int32(fd)
	return fd, 0
}
