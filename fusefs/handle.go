package fusefs

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// handle is one open file of the view: what package openfile knows of it, and
// the inode it is of.
type handle struct {
	openfile.Handle
	node *inode.Node
	// generation is when the open was last found to be within the rules; see revoke.go.
	generation atomic.Uint64
}

// fullEvery is how often at most OnFull is called.
const fullEvery = int64(time.Second)

// reserve counts an open of the view, and reports when there are too many.
func (fs *FS) reserve(h *fuse.InHeader) syscall.Errno {
	e := fs.files.Budget.Reserve()
	if e == 0 || fs.cfg.OnFull == nil {
		return e
	}
	now, last := time.Since(fs.began).Nanoseconds(), fs.fullAt.Load()
	if (last == 0 || now-last >= fullEvery) && fs.fullAt.CompareAndSwap(last, now) {
		fs.cfg.OnFull(callerOf(h), fs.files.Budget.Limit())
	}
	return e
}

// attach adds an open file to its inode, gives it a number and fills the answer.
func (fs *FS) attach(h *handle, st *unix.Statx_t, uid uint32, out *fuse.OpenOut) {
	n := h.node
	fs.passthrough.Attach(&n.Files, &h.Handle, openfile.Opening{
		Attr: st, UID: uid,
		Exclusive:   Keep(n.Keep.Load())&KeepData != 0 && n.Root() != fs.lower,
		Replaceable: n.CopyUp.Load(), // by its copy
	}, out)
	out.Fh = fs.files.Add(h)
}

// Release ends an open file. It comes after the caller's close has returned.
func (fs *FS) Release(_ request, in *fuse.ReleaseIn) {
	if h := fs.files.Take(in.Fh); h != nil && h.node.Files.Release(&h.Handle) {
		fs.notifyAttr(h.node)
	}
}
