package fusefs

import (
	"path"
	"sync"

	"polis/fusefs/inode"
)

// maxFollowed bounds the shared files that are followed.
const maxFollowed = 1000

// followed are the files that show from below and are not in a directory that does, as they were last.
type followed struct {
	mu    sync.Mutex
	files map[string]Seen
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
	now, fresh := fs.sharedNow(f.files)
	var changes []Change
	for p, is := range now {
		was, known := f.files[p]
		if !known && (f.files == nil || !fresh[p]) {
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
	fs.ShowChanges(changes)
}

// sharedNow reads the files to follow: those that were followed, and what is new. fresh are the names of the
// root directory. A name that the tree itself has, or from which the agent removed what showed, is not followed.
func (fs *FS) sharedNow(before map[string]Seen) (now map[string]Seen, fresh map[string]bool) {
	now, fresh = map[string]Seen{}, map[string]bool{}
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
		fresh[name] = true
		add(name)
	}
	for _, n := range fs.tree.All() {
		if r, ok := fs.tree.Nth(n, 0); ok && n.IsRegular() && fs.layers.IsLower(n) && !fs.layers.IsLower(r.Parent) {
			add(fs.tree.Path(n))
		}
	}
	return now, fresh
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
