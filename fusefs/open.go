package fusefs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/conn"
	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// openKeep are the flags of a caller's open that the server's own descriptor
// gets too. O_APPEND and O_DIRECT are the kernel's business: it sends offsets,
// and the server's buffers are not aligned.
const openKeep = unix.O_SYNC | unix.O_DSYNC | unix.O_NOATIME

// Open opens a regular file. It must never answer ENOSYS.
func (fs *FS) Open(cancel request, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	n := fs.tree.Get(in.NodeId)
	switch {
	case n == nil:
		return status(syscall.ESTALE)
	case n.IsDir():
		return fuse.EISDIR
	case !n.IsRegular():
		return status(syscall.ENXIO) // the kernel serves FIFOs and sockets itself
	}
	if fs.echoOf(&in.InHeader) != nil {
		return status(fs.echoOpen(n, in, out))
	}
	if e := fs.reserve(&in.InHeader); e != 0 {
		return status(e)
	}
	h := &handle{node: n, Handle: openfile.Handle{FD: -1}}
	var audit Auditor
	if in.Flags&unix.O_ACCMODE == unix.O_RDONLY && in.Flags&unix.O_TRUNC == 0 { // others are changes
		audit = fs.auditing(OpOpenRead)
	}
	e := fs.audited(audit, callerOf(&in.InHeader), OpOpenRead, n, func() syscall.Errno {
		if fs.openLazy(cancel, h, in, out) {
			return 0
		}
		return fs.openFile(cancel, in, h, out)
	})
	if e != 0 {
		fs.files.Budget.Unreserve()
	}
	return status(e)
}

// openLazy tries to open a file without a descriptor (openfile.Inode.OpenLazy); false
// means that it must be opened. What it does not know it leaves to the other way.
func (fs *FS) openLazy(call request, h *handle, in *fuse.OpenIn, out *fuse.OpenOut) bool {
	const heavy = unix.O_ACCMODE | unix.O_TRUNC | unix.O_NOATIME
	const kept = KeepName | KeepData
	n := h.node
	if in.Flags&heavy != unix.O_RDONLY || Keep(n.Keep())&kept != kept {
		return false
	}
	start := time.Now()
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	if fs.layers.IsLower(n) {
		return false // the user changes it
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
	fd, st, e := fs.layers.OpenNamed(n, unix.O_RDONLY|unix.O_NONBLOCK)
	if e != 0 {
		return // the caller's read returns the error
	}
	if st.Size == uint64(size) {
		call.Push(n.ID, fd, int(size))
	}
	backing.Close(fd)
}

func (fs *FS) openFile(cancel request, in *fuse.OpenIn, h *handle, out *fuse.OpenOut) syscall.Errno {
	acc := in.Flags & unix.O_ACCMODE
	trunc := in.Flags&unix.O_TRUNC != 0
	if acc == unix.O_RDONLY && !trunc {
		g, e := fs.enterRead(cancel, &in.InHeader, OpOpenRead, h.node)
		if e == 0 {
			e = fs.openBacking(h, in, out)
		}
		g.leave(e)
		return e
	}
	h.Writable, h.Mappable = true, acc == unix.O_RDWR
	if acc != unix.O_WRONLY {
		call := fs.newCall(cancel, in.Pid)
		_, e := fs.gateRead(call, callerOf(&in.InHeader), OpOpenRead, h.node)
		call.finish()
		if e != 0 {
			if e != Restart {
				fs.guard.Count(OpOpenWrite, true, e, 0)
			}
			return e
		}
		fs.tree.Names.RUnlock()
	}
	m, done := fs.private(h.node, mutation{
		op: OpOpenWrite, targets: fs.self(h.node),
		do: func() syscall.Errno { return fs.openBacking(h, in, out) },
	}, trunc)
	defer done()
	tk, e := fs.changeKeep(cancel, &in.InHeader, m)
	if e != 0 {
		return e
	}
	h.node.Files.Hold(&h.Handle, tk)
	return 0
}

// openBacking opens the backing file and registers the handle. The name lock is held. The
// kernel cannot release the handle before it has the answer, so the caller may
// still put the ticket into it.
func (fs *FS) openBacking(h *handle, in *fuse.OpenIn, out *fuse.OpenOut) syscall.Errno {
	flags := int(in.Flags)&(unix.O_ACCMODE|openKeep) | unix.O_NONBLOCK
	trunc := in.Flags&unix.O_TRUNC != 0
	if trunc && flags&unix.O_ACCMODE == unix.O_RDONLY {
		flags |= unix.O_RDWR
	}
	fd, st, e := fs.layers.Open(h.node, flags)
	if e != 0 {
		return e
	}
	if trunc { // only now is it certain that this is the file that was meant
		e = backing.Errno(unix.Ftruncate(fd, 0))
		if e == 0 && in.Mode&fuse.OPEN_KILL_SUIDGID != 0 {
			e = backing.KillPriv(fd, &in.InHeader)
		}
		if e == 0 {
			st, e = backing.StatAt(fd, "")
		}
		if e != 0 {
			backing.Close(fd)
			return e
		}
	}
	h.FD = fd
	fs.attach(h, &st, in.Uid, out)
	return 0
}

// attach adds an open file to its inode, gives it a number and fills the answer.
func (fs *FS) attach(h *handle, st *unix.Statx_t, uid uint32, out *fuse.OpenOut) {
	n := h.node
	fs.passthrough.Attach(&n.Files, &h.Handle, openfile.Opening{
		Attr: st, UID: uid,
		Exclusive:   Keep(n.Keep())&KeepData != 0 && !fs.layers.IsLower(n),
		Replaceable: n.CopyUp(), // by its copy
	}, out)
	out.Fh = fs.files.Add(h)
}

// Release ends an open file. It comes after the caller's close has returned.
func (fs *FS) Release(_ request, in *fuse.ReleaseIn) {
	if h := fs.files.Take(in.Fh); h != nil && h.node.Files.Release(&h.Handle) {
		fs.notifyAttr(h.node)
	}
}
