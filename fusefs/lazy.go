package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
	"polis/fusefs/inode"
)

// openLazy tries to open a file without a descriptor (openfile.Inode.OpenLazy); false
// means that it must be opened. What it does not know it leaves to the other way.
func (fs *FS) openLazy(call request, h *handle, in *fuse.OpenIn, out *fuse.OpenOut) bool {
	const heavy = unix.O_ACCMODE | unix.O_TRUNC | unix.O_NOATIME
	const kept = KeepName | KeepData
	n := h.node
	if in.Flags&heavy != unix.O_RDONLY || Keep(n.Keep.Load())&kept != kept {
		return false
	}
	start := time.Now()
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	if n.Root() == fs.lower {
		return false // somebody else changes it
	}
	if !fs.holds(n.Verdict.Load(), verdictReadable) {
		return false
	}
	if _, named := fs.tree.Nth(n, 0); !named {
		return false
	}
	if !n.Files.OpenLazy(&h.Handle, func(size uint32) { fs.prefillCache(call, n, size) }) {
		return false
	}
	out.Fh = fs.files.Add(h)
	out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	fs.guard.Count(OpOpenRead, false, 0, time.Since(start).Nanoseconds())
	return true
}

// prefillCache gives the kernel the pages of a small file that is being opened, as
// who opens such a file mostly reads it, and all of it. It saves the READ; and a
// stat of the file afterwards costs nothing either, for after a READ the kernel
// asks how old the time of the last access is. The name lock is held and the inode is locked:
// who opens the file for writing comes before or after.
func (fs *FS) prefillCache(call request, n *inode.Node, size uint32) {
	if size == 0 || size > conn.MaxPush {
		return
	}
	fd, st, e := fs.openNamed(n, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return // the caller's read will say it
	}
	if st.Size == uint64(size) {
		call.Push(n.ID, fd, int(size))
	}
	backing.Close(fd)
}

// reading returns the descriptor a handle reads by. It is good until the handle
// is released.
func (fs *FS) reading(h *handle) (int, syscall.Errno) {
	if fd, ok := h.node.Files.ReadFD(&h.Handle); ok {
		return fd, 0
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	fd, _, e := fs.open(h.node, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return -1, e
	}
	return h.node.Files.SetReadFD(fd), 0
}
