package overlay

import (
	"syscall"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// List reads the names of a directory, merged over the roots: a name exists if it exists in the
// root it is routed to and visible returns true. path is that of the directory. The name lock is
// held.
func (l *Layers) List(n *inode.Node, path string, visible func(path string, dir bool) bool) ([]fuse.DirEntry, syscall.Errno) {
	var entries []fuse.DirEntry
	below := l.below(n, path)
	var have map[string]bool
	if len(below) > 0 {
		have = map[string]bool{}
	}
	for root := range l.roots[:l.writableRoots()] {
		if n.Root() == l.lower || path == "" && root > 0 && l.Shared != nil && root == l.Shared.StoreRoot {
			continue
		}
		if root != n.Root() && n.Root() != 0 {
			continue // below an overlay everything is in the overlay
		}
		d, e := l.Dir(n, root)
		if e != 0 {
			if root != n.Root() {
				continue
			}
			return nil, e
		}
		names, e := backing.ReadDir(d.FD)
		l.dirs.put(d)
		if e != 0 {
			return nil, e
		}
		for _, en := range names {
			if have != nil {
				have[en.Name] = true
			}
			if p := join(path, en.Name); l.Route(p) == root && visible(p, en.Mode == unix.S_IFDIR) {
				entries = append(entries, en)
			}
		}
	}
	for _, en := range below {
		if !have[en.Name] && visible(join(path, en.Name), en.Mode == unix.S_IFDIR) {
			entries = append(entries, en)
		}
	}
	return entries, 0
}
