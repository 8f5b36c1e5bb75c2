package fusefs

import (
	"syscall"

	"polis/fusefs/inode"
)

// A directory that others may remove (KeepSharedDir) can be gone while the kernel still has its name,
// and another may be in its place. Lookups in it then fail. So when a name is missing the
// directory itself is checked, and if it is gone the answer is ESTALE: the kernel looks up the
// whole path again, with a request for every name, and repeats the call. Only mkdir(2),
// symlink(2) and link(2) fail if the lookup of the very name they are to make returns ESTALE; for
// their callers that try again the kernel's entry of the directory is invalidated.

// revalidate returns the errno for a caller that met the error e in a directory. The
// caller holds the name lock.
func (fs *FS) revalidate(dir *inode.Node, e syscall.Errno) syscall.Errno {
	if e != syscall.ENOENT || Keep(dir.Keep())&KeepSharedDir == 0 {
		return e
	}
	if _, gone := fs.layers.Stat(dir); gone != 0 {
		fs.layers.Drop(dir)
		if r, ok := fs.tree.Nth(dir, 0); ok {
			fs.watchers.Go(func() {
				_ = fs.server.EntryNotify(r.Parent.ID, r.Name) // ENOENT: it has already
			})
		}
		return syscall.ESTALE
	}
	return e
}

// revalidated is revalidate for a caller that does not hold the name lock.
func (fs *FS) revalidated(e syscall.Errno, dirs ...*inode.Node) syscall.Errno {
	if e != syscall.ENOENT {
		return e
	}
	fs.tree.Names.RLock()
	defer fs.tree.Names.RUnlock()
	for _, d := range dirs {
		if e := fs.revalidate(d, e); e != syscall.ENOENT {
			return e
		}
	}
	return e
}

// unkeep makes the kernel forget a name that was moved to where it may not be
// kept: a name takes along how long it is kept. What holds the directories is
// the call that is being answered, so this waits for it.
func (fs *FS) unkeep(parent *inode.Node, name string, before Keep) {
	n := fs.tree.At(parent, name)
	if n == nil || before&KeepName == 0 || Keep(n.Keep())&KeepName != 0 {
		return
	}
	fs.watchers.Go(func() {
		_ = fs.server.EntryNotify(parent.ID, name) // ENOENT: moved on, or forgotten
	})
}
