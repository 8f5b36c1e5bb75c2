package fusefs

import (
	"log/slog"
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"polis/fusefs/inode"
)

const (
	// maxFollowed bounds the shared files that are followed.
	maxFollowed = 1000
	// keepVanished is for how many calls of FollowShared a name that has vanished is still followed, in case it comes back.
	keepVanished = 200
)

// followed are the files that show from below and are not in a directory that does, as they were last.
type followed struct {
	mu    sync.Mutex // taken before the name lock
	files map[string]Seen
	gone  map[string]int // the calls since names have vanished
	over  bool           // it was logged that there are too many

	// new are those that were looked up, as they were then: whatever becomes of them later is to be shown.
	newMu sync.Mutex // taken after the name lock
	new   map[string]Seen
	more  int // look-ups beyond the limit
}

// lookedUp notes that a program may use what shows from below at a path. The name lock is held.
func (f *followed) lookedUp(path string, st *unix.Statx_t) {
	f.newMu.Lock()
	defer f.newMu.Unlock()
	if _, noted := f.new[path]; noted {
		return
	}
	if len(f.new) == maxFollowed {
		f.more++
		return
	}
	if f.new == nil {
		f.new = map[string]Seen{}
	}
	f.new[path] = seenOf(st)
}

// take returns what was looked up since the last call.
func (f *followed) take() (looked map[string]Seen, more int) {
	f.newMu.Lock()
	defer f.newMu.Unlock()
	looked, more = f.new, f.more
	f.new, f.more = nil, 0
	return looked, more
}

// FollowShared has programs that watch the tree see what was changed in files that show from below (overlay.Shared): those
// in the root directory, and those of other directories that a program has used. What is in a directory that
// shows is not followed. The first call shows nothing. While earlier changes are still being shown, or another call
// runs, it does nothing: what has changed is found by the next. To be called from time to time.
func (fs *FS) FollowShared() {
	f := &fs.followed
	if !fs.layers.Merges() || fs.ShowsChanges() || !f.mu.TryLock() {
		return
	}
	defer f.mu.Unlock()
	looked, more := f.take()
	now, over := fs.sharedNow(looked)
	if over += more; over > 0 && !f.over {
		fs.log.Warn("programs that watch files are not notified of changes in all files that show from the project: there are too many",
			slog.String("op", "follow-shared"), slog.Int("followed", maxFollowed), slog.Int("others", over))
	}
	f.over = over > 0
	var changes []Change
	for p, is := range now {
		was, known := f.files[p]
		if !known {
			was, known = looked[p]
		}
		if !known && f.files == nil {
			continue
		}
		if c, ok := was.Became(p, is); ok {
			changes = append(changes, c)
		}
	}
	f.files = now
	if len(changes) == 0 {
		return
	}
	fs.invalidate(func() []*inode.Node { return fs.changedNodes(changes) })
	if fs.cfg.BeforeTrim != nil { // an overlay above the view returns ESTALE for a name that another object has now
		fs.cfg.BeforeTrim()
	}
	fs.ShowChanges(changes)
}

// sharedNow reads the files to follow: those that were followed, those of the root directory, and those that were looked
// up. A name that the tree itself has, or from which the agent removed what showed, is not followed. One that has
// vanished is followed for some time, if there is room. over is how many others there is no room for. followed.mu is held.
func (fs *FS) sharedNow(looked map[string]Seen) (now map[string]Seen, over int) {
	f := &fs.followed
	now = map[string]Seen{}
	gone := map[string]int{}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	add := func(p string, was Seen) {
		if _, done := now[p]; done {
			return
		}
		if _, done := gone[p]; done {
			return
		}
		switch st, ok := fs.layers.FileBelow(p); {
		case !ok:
		case st == nil && was.kind == 0:
			gone[p] = f.gone[p] + 1
		case st == nil: // it vanishes now, which is to be shown
			now[p], gone[p] = Seen{}, 0
		case len(now) >= maxFollowed:
			over++
		default:
			now[p] = seenOf(st)
		}
	}
	for p, was := range f.files {
		add(p, was)
	}
	for _, name := range fs.layers.FilesBelow() {
		add(name, Seen{})
	}
	for p, was := range looked {
		add(p, was)
	}
	for p, calls := range gone {
		if calls > 0 && (calls > keepVanished || len(now) >= maxFollowed) {
			delete(gone, p)
		} else {
			now[p] = Seen{}
		}
	}
	f.gone = gone
	return now, over
}

// changedNodes are the inodes that changes are about: those of the paths and of their directories.
func (fs *FS) changedNodes(changes []Change) []*inode.Node {
	files, dirs := map[string]bool{}, map[string]bool{}
	for _, c := range changes {
		files[c.Path] = true
		up, _ := path.Split(c.Path)
		dirs[path.Clean("/" + up)[1:]] = true
	}
	var out []*inode.Node
	for _, n := range fs.tree.All() {
		if p := fs.tree.Path(n); n.IsDir() && dirs[p] || files[p] {
			out = append(out, n)
		}
	}
	return out
}
