package fusefs

import (
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"time"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// notifyWait bounds how long an invalidation waits for the kernel. A name in a
// directory that is being changed right now can only be invalidated when that
// change has ended, and its guard may be waiting for a person; the rest is
// then done in the background.
const notifyWait = 2 * time.Second

// settleAnswers is how long an invalidation waits for answers that are on their
// way. Those that take longer wait for a person or a lease: they are about
// opening, or about names that were changed under the rules of before.
const settleAnswers = 500 * time.Millisecond

// notifyAttr makes the kernel forget the attributes of an inode, not its data.
func (fs *FS) notifyAttr(n *inode.Node) { fs.notifyInode(n, -1) }

func (fs *FS) notifyInode(n *inode.Node, off int64) {
	if e := fs.server.InodeNotify(n.ID, off, 0); e != 0 && e != syscall.ENOENT {
		fs.log.Debug("inode not invalidated", slog.String("op", "notify"), slog.Any("err", e))
	}
}

// InvalidateAll makes the kernel forget what it cached: attributes, pages and
// listings of everything, and the names that are hidden now or no longer stand
// for the object they stood for. To be called after the guard's answers have
// changed; not from within a Guard method.
func (fs *FS) InvalidateAll() { fs.invalidate(fs.tree.All) }

// InvalidatePath does the same for one path and everything below it, after it
// was changed behind the view, and notifies programs that watch that path.
func (fs *FS) InvalidatePath(path string) {
	fs.invalidate(func() []*inode.Node { return fs.about(path) }, path)
}

// about are the objects a change of path may have changed: what is there, what
// is below and the directory above.
func (fs *FS) about(path string) []*inode.Node {
	up := ""
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		up = path[:i]
	}
	return slices.DeleteFunc(fs.tree.All(), func(n *inode.Node) bool {
		return !slices.ContainsFunc(fs.tree.Paths(n), func(p string) bool {
			return p == path || p == up || path == "" || strings.HasPrefix(p, path+"/")
		})
	})
}

// invalidate asks which objects it is about only when no answer that was found
// before can reach the kernel any more: such an answer makes known what was not,
// and its word would outlive the notification. (The kernel's own way, an epoch,
// FUSE_NOTIFY_INC_EPOCH, drops every name at once, and with them the mounts and
// working directories below them.)
func (fs *FS) invalidate(which func() []*inode.Node, changed ...string) {
	fs.mu.Lock()
	if fs.server == nil {
		fs.mu.Unlock()
		return
	}
	for _, n := range which() {
		n.Files.Invalidate()
	}
	done := make(chan struct{})
	fs.bg.Go(func() {
		defer close(done)
		if !fs.server.Settle(settleAnswers) {
			fs.log.Debug("answer of a slow request not awaited", slog.String("op", "notify"))
		}
		nodes := which()
		for _, n := range nodes {
			n.Files.Invalidate()
		}
		for _, n := range nodes {
			fs.notifyInode(n, 0)
		}
		for _, n := range nodes {
			for _, name := range fs.none.Take(n.ID) {
				_ = fs.server.EntryNotify(n.ID, name) // as below
			}
		}
		for _, n := range nodes {
			for _, r := range fs.tree.Refs(n) {
				if fs.stale(n, r) {
					_ = fs.server.EntryNotify(r.Parent.ID, r.Name) // ENOENT: not cached
				}
			}
		}
		for _, n := range nodes {
			if n.IsDir() {
				// A reader of a listing has the directory locked, and keeps the entries
				// it got before. The notification of a name that is none waits for it.
				_ = fs.server.EntryNotify(n.ID, ".")
				fs.notifyInode(n, 0)
			}
		}
		fs.notifyWatchers(changed...)
	})
	fs.mu.Unlock()
	t := time.NewTimer(notifyWait)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
		fs.log.Warn("invalidation continues in the background", slog.String("op", "notify"))
	}
}

// SharedChanged makes the kernel forget that names are absent which may show from below
// (overlay.Shared). To be called when other names do than before: what is there already is
// never kept for long. It returns before the kernel has.
func (fs *FS) SharedChanged() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.server == nil || !fs.layers.Merges() {
		return
	}
	fs.bg.Go(func() {
		fs.server.Settle(settleAnswers) // an answer of before may be on its way; see invalidate
		for _, a := range fs.none.All() {
			dir := fs.tree.Get(a.Dir)
			if dir == nil || !fs.layers.MayAppear(dir, a.Name) {
				continue
			}
			fs.none.Cut(a.Dir, a.Name)
			_ = fs.server.EntryNotify(a.Dir, a.Name) // ENOENT: not cached
		}
	})
}

// stale reports whether the kernel must not keep this name.
func (fs *FS) stale(n *inode.Node, r inode.Name) bool {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	p, e := fs.layers.At(r.Parent, r.Name)
	if e != 0 {
		return true
	}
	defer fs.layers.Put(p.Dir)
	if !fs.guard.Visible(fs.tree.Child(r.Parent, r.Name), n.IsDir()) {
		return true
	}
	st, e := backing.StatAt(p.Dir.FD, r.Name)
	return e != 0 || !fs.layers.Undated.KeyOf(p.Root, &st).Same(n.Key)
}
