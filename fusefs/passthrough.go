package fusefs

import (
	"log/slog"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// wantsPassthrough decides for the first open of an inode. Small files that
// are only read do better in the page cache: passthrough reads invalidate the
// attributes. Files with set-id bits written by an unprivileged caller are
// served here, because the kernel writes with the server's credentials and
// would leave the bits.
func (fs *FS) wantsPassthrough(h *handle, st *unix.Statx_t, uid uint32) bool {
	if !fs.Passthrough() || h.node.copyUp.Load() {
		return false // what is still to be copied up may be replaced while it is open
	}
	if h.writable {
		return uid == 0 || st.Mode&(unix.S_ISUID|unix.S_ISGID) == 0
	}
	return st.Size > smallFile
}

// ensureBacking registers the file with the kernel, once per inode: a second
// id for the same inode would be EIO. io.mu is held.
func (fs *FS) ensureBacking(h *handle) bool {
	io := &h.node.io
	if io.backing > 0 {
		return true
	}
	// The kernel keeps the descriptor's file until the inode is forgotten. It
	// must not be one open for writing: nobody could execute the file on the
	// backing side, nor take a read lease, long after the writer has closed it.
	fd, err := unix.Open(backing.ProcPath(h.fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer backing.Close(fd)
	id, e := fs.server.OpenBacking(fd)
	if e == 0 && id > 0 {
		io.backing = id
		return true
	}
	// This open, and those that join it, are served from here. What is the
	// same for every file of the mount is not tried again.
	switch e {
	case syscall.EPERM, syscall.EOPNOTSUPP, syscall.ENOTTY:
		fs.ptFault.Store(true)
	}
	if !fs.ptLogged.Swap(true) {
		fs.log.Warn("passthrough refused; data goes through the server", slog.String("op", "backing-open"), slog.Any("err", e))
	}
	return false
}

// dropBacking unregisters the file of a forgotten inode.
func (fs *FS) dropBacking(n *node) {
	n.io.mu.Lock()
	defer n.io.mu.Unlock()
	if n.io.backing > 0 {
		if e := fs.server.CloseBacking(n.io.backing); e != 0 && e != syscall.EBADF {
			fs.log.Warn("backing file not unregistered", slog.String("op", "backing-close"), slog.Any("err", e))
		}
		n.io.backing = 0
	}
}
