package fusefs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// attach adds an open file to its inode, chooses how its data flows and fills
// the answer.
func (fs *FS) attach(h *handle, st *unix.Statx_t, uid uint32, out *fuse.OpenOut) {
	io := &h.node.io
	io.mu.Lock()
	defer io.mu.Unlock()
	first := io.open == nil
	if first {
		io.mode = ioCached
		if fs.wantsPassthrough(h, st, uid) && fs.ensureBacking(h) {
			io.mode = ioPassthrough
		}
	}
	io.small = st.Size <= smallFile
	if h.made && h.mappable {
		io.given = false
	}
	if h.mappable && io.mappers == 0 {
		before := stampOf(st)
		io.before = &before
	}
	io.insert(h)
	out.OpenFlags, io.pushed = fuse.FOPEN_NOFLUSH, false
	if io.mode == ioPassthrough {
		out.OpenFlags |= fuse.FOPEN_PASSTHROUGH
		out.BackingID = io.backing
		io.seen = nil
	} else if io.fresh(st, Keep(h.node.keep.Load())&KeepData != 0 && h.node.root() != fs.lower) || !first {
		out.OpenFlags |= fuse.FOPEN_KEEP_CACHE
	}
	out.Fh = fs.files.add(h)
}

// fresh says whether the pages the kernel may have are those of the file as st
// describes it. Where nobody else can change it they are, unless it was said
// otherwise since; elsewhere they are if the file looks as it did then.
func (io *nodeIO) fresh(st *unix.Statx_t, ours bool) bool {
	if ours {
		was := io.current
		io.current = true
		return was
	}
	now := stampOf(st)
	was := io.seen != nil && *io.seen == now
	io.seen = &now
	return was
}

// Release ends an open file. It comes after the caller's close has returned.
func (fs *FS) Release(_ request, in *fuse.ReleaseIn) {
	h := fs.files.take(in.Fh)
	if h == nil {
		return
	}
	io := &h.node.io
	io.mu.Lock()
	io.unlink(h)
	tell := h.writable && io.written(h)
	io.mu.Unlock()
	h.close()
	if tell {
		// Stores through a mapping changed size and times unseen.
		fs.notifyAttr(h.node)
	}
}

// written is called when a writer has gone and says whether the kernel may
// keep attributes that are no longer right.
func (io *nodeIO) written(h *handle) bool {
	again := io.open == nil && io.mode == ioCached && io.seen != nil
	kept := h.mappable && io.given
	if !kept && !again {
		return false
	}
	st, e := backing.StatAt(h.fd, "")
	if e != 0 {
		return true
	}
	now := stampOf(&st)
	if again {
		io.seen = &now
	}
	if !kept || *io.before == now {
		return false
	}
	io.given = false
	return true
}
