package fusefs

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Read serves files in cached mode.
func (fs *FS) Read(_ request, in *fuse.ReadIn, dest []byte) (int, fuse.Status) {
	h := fs.files.Get(in.Fh)
	if h == nil {
		return 0, fuse.EBADF
	}
	if fs.revoked(h, false) {
		return 0, fuse.EACCES
	}
	fd, e := fs.reading(h)
	if e != 0 {
		return 0, status(e)
	}
	n, err := unix.Pread(fd, dest, int64(in.Offset))
	return n, status(backing.Errno(err))
}

// Write serves files in cached mode. The gate was at the open; the handle's
// ticket is still held.
func (fs *FS) Write(_ request, in *fuse.WriteIn, data []byte) (uint32, fuse.Status) {
	h := fs.files.Get(in.Fh)
	if h == nil || h.FD < 0 || !h.Writable {
		return 0, fuse.EBADF
	}
	if fs.revoked(h, true) {
		return 0, fuse.EACCES
	}
	if h.node.Files.Lost(&h.Handle) {
		return 0, fuse.EBUSY
	}
	n, err := unix.Pwrite(h.FD, data, int64(in.Offset))
	if err != nil {
		return 0, status(backing.Errno(err))
	}
	if in.WriteFlags&fuse.WRITE_KILL_SUIDGID != 0 {
		if e := backing.KillPriv(h.FD, &in.InHeader); e != 0 {
			return 0, status(e)
		}
	}
	return uint32(n), fuse.OK
}

// Flush is not implemented: there is nothing to do at close, and one ENOSYS
// saves a round trip at every close. (The kernel drops POSIX locks itself.)
func (fs *FS) Flush(request, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }

// Fsync writes a file's data to the disk.
func (fs *FS) Fsync(_ request, in *fuse.FsyncIn) fuse.Status {
	h := fs.files.Get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	fd, e := fs.reading(h)
	if e != 0 {
		return status(e)
	}
	if fs.isCopy(h.node) {
		fs.writeLater(fd)
		return fuse.OK
	}
	if in.FsyncFlags&1 != 0 {
		return status(backing.Errno(unix.Fdatasync(fd)))
	}
	return status(backing.Errno(unix.Fsync(fd)))
}

// Lseek finds holes and data.
func (fs *FS) Lseek(_ request, in *fuse.LseekIn, out *fuse.LseekOut) fuse.Status {
	h := fs.files.Get(in.Fh)
	if h == nil {
		return fuse.EBADF
	}
	if fs.revoked(h, false) { // where the data of a file is, is content
		return fuse.EACCES
	}
	fd, e := fs.reading(h)
	if e != 0 {
		return status(e)
	}
	off, err := unix.Seek(fd, int64(in.Offset), int(in.Whence))
	if err != nil {
		return status(backing.Errno(err))
	}
	out.Offset = uint64(off)
	return fuse.OK
}

// Fallocate reserves or punches.
func (fs *FS) Fallocate(cancel request, in *fuse.FallocateIn) fuse.Status {
	h := fs.files.Get(in.Fh)
	if h == nil || h.FD < 0 || !h.Writable {
		return fuse.EBADF
	}
	if h.node.Files.Lost(&h.Handle) {
		return fuse.EBUSY
	}
	return status(fs.change(cancel, &in.InHeader, mutation{
		op: OpFallocate, targets: fs.self(h.node),
		do: func() syscall.Errno {
			e := backing.Errno(unix.Fallocate(h.FD, in.Mode, int64(in.Offset), int64(in.Length)))
			if e == 0 && in.Uid != 0 {
				e = backing.KillPriv(h.FD, &in.InHeader)
			}
			return e
		},
	}))
}

// CopyFileRange copies between two open files without moving the data through
// the caller.
func (fs *FS) CopyFileRange(cancel request, in *fuse.CopyFileRangeIn) (uint32, fuse.Status) {
	src, dst := fs.files.Get(in.FhIn), fs.files.Get(in.FhOut)
	if src == nil || dst == nil || dst.FD < 0 || !dst.Writable {
		return 0, fuse.EBADF
	}
	if dst.node.Files.Lost(&dst.Handle) {
		return 0, fuse.EBUSY
	}
	// It reads as READ does; the right to write is checked below.
	if fs.revoked(src, false) {
		return 0, fuse.EACCES
	}
	from, e := fs.reading(src)
	if e != 0 {
		return 0, status(e)
	}
	copied := 0
	e = fs.change(cancel, &in.InHeader, mutation{
		op: OpCopyRange, targets: fs.self(dst.node),
		do: func() syscall.Errno {
			offIn, offOut := int64(in.OffIn), int64(in.OffOut)
			// The answer has 32 bits.
			length := int(min(in.Len, 1<<31-4096))
			var err error
			copied, err = unix.CopyFileRange(from, &offIn, dst.FD, &offOut, length, int(in.Flags))
			e := backing.Errno(err)
			if e == 0 && in.Uid != 0 {
				e = backing.KillPriv(dst.FD, &in.InHeader)
			}
			return e
		},
	})
	if e != 0 {
		return 0, status(e)
	}
	return uint32(copied), fuse.OK
}

// reading returns the descriptor a handle reads by. It is good until the handle
// is released.
func (fs *FS) reading(h *handle) (int, syscall.Errno) {
	if fd, ok := h.node.Files.ReadFD(&h.Handle); ok {
		return fd, 0
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	fd, _, e := fs.layers.Open(h.node, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return -1, e
	}
	return h.node.Files.SetReadFD(fd), 0
}
