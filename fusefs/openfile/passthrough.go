package openfile

import (
	"log/slog"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Kernel registers backing files (FUSE_DEV_IOC_BACKING_OPEN and _CLOSE).
type Kernel interface {
	OpenBacking(fd int) (id int32, e syscall.Errno)
	CloseBacking(id int32) syscall.Errno
}

// Passthrough has the kernel read and write backing files itself, if it can. Log is
// set before the first use.
type Passthrough struct {
	Log *slog.Logger

	kernel  Kernel
	granted atomic.Bool // the kernel offered passthrough
	fault   atomic.Bool // registering failed for every file
	logged  atomic.Bool // and for whatever reason, this was said once
}

// Mounted sets the connection before its first request, and whether the kernel
// granted passthrough.
func (p *Passthrough) Mounted(k Kernel, granted bool) {
	p.kernel = k
	p.granted.Store(granted)
}

// On reports whether the kernel granted passthrough and no registration has failed in
// a way that holds for every file of the mount.
func (p *Passthrough) On() bool { return p.granted.Load() && !p.fault.Load() }

// wanted decides for the first open of an inode. Small files that
// are only read do better in the page cache: passthrough reads invalidate the
// attributes. Files with set-id bits written by an unprivileged caller are
// served here, because the kernel writes with the server's credentials and
// would leave the bits.
func (p *Passthrough) wanted(h *Handle, o *Opening) bool {
	if !p.On() || o.Replaceable {
		return false
	}
	if h.Writable {
		return o.UID == 0 || o.Attr.Mode&(unix.S_ISUID|unix.S_ISGID) == 0
	}
	return o.Attr.Size > SmallFile
}

// register registers the file with the kernel, once per inode: a second
// id for the same inode would be EIO. i.mu is held.
func (p *Passthrough) register(i *Inode, h *Handle) bool {
	u := i.change()
	if u.backing > 0 {
		return true
	}
	// The kernel keeps the descriptor's file until the inode is forgotten. It
	// must not be one open for writing: nobody could execute the file on the
	// backing side, nor take a read lease, long after the writer has closed it.
	fd, err := unix.Open(backing.ProcPath(h.FD), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer backing.Close(fd)
	id, e := p.kernel.OpenBacking(fd)
	if e == 0 && id > 0 {
		u.backing = id
		return true
	}
	// This open, and those that join it, are served from here. What is the
	// same for every file of the mount is not tried again.
	switch e {
	case syscall.EPERM, syscall.EOPNOTSUPP, syscall.ENOTTY:
		p.fault.Store(true)
	}
	if !p.logged.Swap(true) {
		p.Log.Warn("passthrough refused; data goes through the server", slog.String("op", "backing-open"), slog.Any("err", e))
	}
	return false
}

// Unregister ends the registration of an inode that is forgotten or replaced.
func (p *Passthrough) Unregister(i *Inode) {
	i.mu.Lock()
	defer i.mu.Unlock()
	u := i.use
	if u == nil || u.backing == 0 {
		return
	}
	if e := p.kernel.CloseBacking(u.backing); e != 0 && e != syscall.EBADF {
		p.Log.Warn("backing file not unregistered", slog.String("op", "backing-close"), slog.Any("err", e))
	}
	u.backing = 0
	i.settle()
}
