package fusefs

import (
	"syscall"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// named computes the names of a mutation under the name lock. The number is the count of
// edits at which they hold.
func (fs *FS) named(targets func() ([]Target, syscall.Errno)) ([]Target, uint64, syscall.Errno) {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	edits := fs.tree.Edits()
	t, e := targets()
	return t, edits, e
}

// self is the targets function of a change to an object itself: all its names.
func (fs *FS) self(n *inode.Node) func() ([]Target, syscall.Errno) {
	return func() ([]Target, syscall.Errno) {
		paths := fs.tree.Paths(n)
		out := make([]Target, len(paths))
		for i, p := range paths {
			out[i] = Target{Path: p, Dir: n.IsDir()}
		}
		if rules, ok := fs.unlinked(n); ok {
			out[0].Unlinked = true
			if rules != "" {
				out[0].Path = rules
			}
		}
		return out, 0
	}
}

// entry is the targets function of a change to one name of a directory.
func (fs *FS) entry(parent *inode.Node, name string, dir bool) func() ([]Target, syscall.Errno) {
	return func() ([]Target, syscall.Errno) {
		return []Target{{Path: fs.tree.Child(parent, name), Dir: dir}}, 0
	}
}

// unlinked returns by the rules of which path a file is read and changed whose last name was removed (UnlinkedGuard).
// ok is false for all others.
func (fs *FS) unlinked(n *inode.Node) (rules string, ok bool) {
	if fs.nameless == nil || !n.IsRegular() {
		return "", false
	}
	if _, named := fs.tree.Nth(n, 0); named || fs.tree.DeadAttr(n) == nil {
		return "", false
	}
	fd, opened := n.Files.Dup()
	if !opened {
		return "", false
	}
	defer backing.Close(fd)
	// It can have names that the view does not know.
	if st, e := backing.StatAt(fd, ""); e != 0 || st.Nlink != 0 {
		return "", false
	}
	return fs.nameless.Unlinked(fs.tree.Path(n), fd)
}
