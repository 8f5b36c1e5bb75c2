package fusefs

import (
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

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
