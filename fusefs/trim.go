package fusefs

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"polis/fusefs/inode"
)

// The kernel remembers every inode that a program has looked up until it is short of memory, and
// the view must remember what the kernel does. So after a walk through a large tree both keep
// memory for files that nothing uses. When a large view is idle the kernel is made to drop what
// nothing uses (FUSE_NOTIFY_PRUNE, Linux 6.18). An older kernel keeps them.

const (
	// trimAbove is how many inodes are kept in any case.
	trimAbove = 16384
	// trimAfter is how long a view must be idle, trimAtMost the longest that this becomes.
	trimAfter  = 8 * time.Second
	trimAtMost = time.Hour
)

// trimmer decides when a view is trimmed. A program that stats a large tree again and again
// without another request would look everything up again after each trim: each time that what
// was trimmed is back soon, the next trim waits for four times as long.
type trimmer struct {
	above int           // inodes
	least time.Duration // idle
	on    atomic.Bool   // a goroutine waits for the view to be idle

	mu   sync.Mutex
	wait time.Duration
	last time.Time // of the last trim
}

// grown returns how long the view must be idle, now that it is large again.
func (t *trimmer) grown(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.last.IsZero():
		t.wait = t.least
	case now.Sub(t.last) < 16*t.wait:
		t.wait = min(4*t.wait, trimAtMost)
	default:
		t.wait = max(t.wait/4, t.least)
	}
	return t.wait
}

func (t *trimmer) trimmed(now time.Time) {
	t.mu.Lock()
	t.last = now
	t.mu.Unlock()
}

// grown is called when an inode may have become known.
func (fs *FS) grown() {
	if fs.tree.Len() > fs.trimmer.above && !fs.trimmer.on.Load() && fs.trimmer.on.CompareAndSwap(false, true) {
		fs.watchers.Go(fs.trim)
	}
}

// trim waits until the view is idle and trims it once. It ends with the connection.
func (fs *FS) trim() {
	defer fs.trimmer.on.Store(false)
	if !fs.idle(fs.trimmer.grown(time.Now())) {
		return
	}
	before := fs.tree.Len()
	fs.lists.clear() // of walks that ended early
	if fs.prunes() {
		if fs.cfg.BeforeTrim != nil {
			fs.cfg.BeforeTrim()
		}
		fs.prune()
	}
	fs.trimmer.trimmed(time.Now())
	if !fs.idle(fs.trimmer.least / 8) { // for what was forgotten to arrive
		return
	}
	fs.log.Debug("view trimmed", slog.String("op", "trim"), slog.Int("before", before), slog.Int("after", fs.tree.Len()))
	if fs.cfg.OnIdle != nil {
		fs.cfg.OnIdle()
	}
}

// idle returns when the kernel has asked nothing and forgotten nothing for so long; false means
// that the connection has ended.
func (fs *FS) idle(wait time.Duration) bool {
	t := time.NewTicker(max(wait/4, time.Millisecond))
	defer t.Stop()
	for last, known, quiet := fs.server.Taken(), fs.tree.Len(), 0; quiet < 4; quiet++ {
		select {
		case <-fs.server.Dead():
			return false
		case <-t.C:
		}
		if n, k := fs.server.Taken(), fs.tree.Len(); n != last || k != known {
			last, known, quiet = n, k, -1
		}
	}
	return true
}

// prunes reports whether the kernel has FUSE_NOTIFY_PRUNE.
func (fs *FS) prunes() bool { return fs.server.PruneNotify(nil) != syscall.EINVAL }

// prune makes the kernel drop what nothing uses. A directory can only go after what is in it,
// which mostly became known later and has the higher number.
func (fs *FS) prune() {
	all := fs.tree.All()
	slices.SortFunc(all, func(a, b *inode.Node) int { return cmp.Compare(b.ID, a.ID) })
	ids := make([]uint64, 0, len(all))
	for _, n := range all {
		if n != fs.tree.Root && n != fs.tree.Work {
			ids = append(ids, n.ID)
		}
	}
	if e := fs.server.PruneNotify(ids); e != 0 {
		fs.log.Debug("inodes not pruned", slog.String("op", "notify"), slog.Any("err", e))
	}
}
