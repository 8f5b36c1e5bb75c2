package fusefs

import (
	"slices"

	"polis/fusefs/inode"
)

// maxStillOpen bounds the paths StillOpen names.
const maxStillOpen = 256

// revoked reports whether the rules now forbid what a file was opened for. It is called at every
// READ and WRITE that reaches the server, and costs a comparison unless the rules or the names of
// directories have changed.
func (fs *FS) revoked(h *handle, write bool) bool {
	if fs.cacheable == nil {
		return false
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	generation := fs.generation()
	if h.generation.Load() == generation {
		return false
	}
	if fs.forbidden(h.node, write) {
		return true
	}
	// A right to read is no right to write, and a right to write none to read: a file that was renamed aside has the
	// rules of two names.
	if !write && !h.Writable || !fs.forbidden(h.node, !write) {
		h.generation.Store(generation)
	}
	return false
}

// forbidden reports whether the guard would refuse an object at once: to be read
// under all its names, to be written under one of them. What never had a name
// is not forbidden. The name lock is held.
func (fs *FS) forbidden(n *inode.Node, write bool) bool {
	if fs.cacheable == nil || !fs.tree.WasNamed(n) {
		return false
	}
	paths := fs.tree.Paths(n)
	if rules, ok := fs.unlinked(n); ok {
		if rules == "" {
			return false
		}
		paths = []string{rules}
	}
	no := func(path string) bool {
		s := fs.cacheable.CachedVerdict(path, n.IsDir())
		return write && s&Unwritable != 0 || !write && s&Unreadable != 0
	}
	if write {
		return slices.ContainsFunc(paths, no)
	}
	return !slices.ContainsFunc(paths, func(p string) bool { return !no(p) })
}

// StillOpen are the paths of files that the rules forbid, or whose lease was
// lost while they were open for writing, and that are open nevertheless, in
// such a way that the kernel serves them without asking: passthrough, which
// nothing can revoke but the end of the process. Sorted, at most 256.
func (fs *FS) StillOpen() []string {
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	var out []string
	for _, h := range fs.files.All() {
		direct, lost := h.node.Files.Direct(&h.Handle)
		if direct && (lost || fs.forbidden(h.node, false) || h.Writable && fs.forbidden(h.node, true)) {
			out = append(out, fs.tree.Path(h.node))
		}
	}
	slices.Sort(out)
	out = slices.Compact(out)
	return out[:min(len(out), maxStillOpen)]
}
