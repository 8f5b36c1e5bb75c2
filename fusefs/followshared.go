package fusefs

import (
	"path"
	"sync"

	"golang.org/x/sys/unix"

	"polis/fusefs/inode"
)

// maxFollowed bounds the shared files that are followed.
const maxFollowed = 1000

// followed are the files that show from below and are not in a directory that does, as they were last.
type followed struct {
	mu    sync.Mutex // taken before the name lock
	files map[string]Seen

	// new are those that were looked up, as they were then: whatever becomes of them later is to be shown.
	newMu sync.Mutex // taken after the name lock
	new   map[string]Seen
}

// lookedUp notes that a program may use what shows from below at a path. The name lock is held.
func (f *followed) lookedUp(path string, st *unix.Statx_t) {
	f.newMu.Lock()
	defer f.newMu.Unlock()
	if _, noted := f.new[path]; noted || len(f.new) == maxFollowed {
		return
	}
	if f.new == nil {
		f.new = map[string]Seen{}
	}
	f.new[path] = seenOf(st)
}

// take returns what was looked up since the last call.
func (f *followed) take() map[string]Seen {
	f.newMu.Lock()
	defer f.newMu.Unlock()
	out := f.new
	f.new = nil
	return out
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
	looked := f.take()
	now := fs.sharedNow(f.files, looked)
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
// up. A name that the tree itself has, or from which the agent removed what showed, is not followed.
func (fs *FS) sharedNow(before, looked map[string]Seen) map[string]Seen {
	now := map[string]Seen{}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	add := func(p string) {
		if _, done := now[p]; done || len(now) == maxFollowed {
			return
		}
		st, ok := fs.layers.FileBelow(p)
		if !ok {
			return
		}
		now[p] = Seen{}
		if st != nil {
			now[p] = seenOf(st)
		}
	}
	for p := range before {
		add(p)
	}
	for _, name := range fs.layers.FilesBelow() {
		add(name)
	}
	for p := range looked {
		add(p)
	}
	return now
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
