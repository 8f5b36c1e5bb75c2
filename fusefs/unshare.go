package fusefs

import (
	"context"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// unshare prepares the removal of a name that shows from below, or would when
// the tree's own is gone: it is remembered as gone first, so that a crash in
// between brings nothing back. st is what the view shows. The name lock is held for writing.
func (fs *FS) unshare(p place, name string, st *unix.Statx_t, rmdir bool) syscall.Errno {
	if fs.lower < 0 || p.root != 0 && p.root != fs.lower {
		return 0
	}
	if p.root == 0 && !fs.shows(p.path) {
		return 0
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case rmdir && !isDir:
		return syscall.ENOTDIR
	case !rmdir && isDir:
		return syscall.EISDIR
	}
	if isDir {
		if e := fs.empty(p, name); e != 0 {
			return e
		}
	}
	return fs.hide(p.path)
}

// empty says ENOTEMPTY of a directory that holds anything, in the tree or from
// below.
func (fs *FS) empty(p place, name string) syscall.Errno {
	if len(fs.below(nil, p.path)) > 0 {
		return syscall.ENOTEMPTY
	}
	if p.root == fs.lower {
		return 0
	}
	fd, e := backing.OpenAt(p.dir.fd, name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if e != 0 {
		return e
	}
	defer backing.Close(fd)
	names, e := backing.ReadDir(fd)
	if e == 0 && len(names) > 0 {
		e = syscall.ENOTEMPTY
	}
	return e
}

// raise makes what a rename moves the tree's own. A directory from below does
// not move as a whole, as on any overlay: EXDEV, and the caller copies.
func (r *renaming) raise() syscall.Errno {
	fs := r.fs
	if fs.lower < 0 {
		return 0
	}
	e := r.raiseAt(r.op, r.on)
	if e == 0 && r.exchange() {
		e = r.raiseAt(r.np, r.nn)
	}
	return e
}

func (r *renaming) raiseAt(parent *inode.Node, name string) syscall.Errno {
	fs := r.fs
	n := fs.tree.At(parent, name)
	if n == nil || !n.CopyUp.Load() {
		return 0
	}
	fs.tree.Names.RLock()
	low := n.Root() == fs.lower
	fs.tree.Names.RUnlock()
	switch {
	case !low:
		return 0 // a shared inode can change its name
	case n.IsDir():
		return syscall.EXDEV
	}
	s, e := fs.stage(context.Background(), n, false)
	if e != 0 {
		return e
	}
	defer s.drop()
	fs.tree.Names.Lock()
	defer fs.tree.Names.Unlock()
	return fs.settleStaged(n, s)
}

// unshare clears the way of a rename of what is at from. The name lock is held for writing.
func (r *renaming) unshare(from place) syscall.Errno {
	fs := r.fs
	if fs.lower < 0 || from.root != 0 && from.root != fs.lower {
		return 0
	}
	if from.root == fs.lower {
		return syscall.ESTALE // it came to show this very moment
	}
	src, e := backing.StatAt(from.dir.fd, r.on)
	if e != 0 {
		return e
	}
	isDir := src.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && fs.shows(from.path) {
		return syscall.EXDEV
	}
	to, e := fs.at(r.np, r.nn)
	if e == syscall.ENOENT && to.root == 0 {
		e = fs.hide(to.path) // its directory is only below yet
		if e == 0 {
			e = fs.hide(from.path)
		}
		return e
	}
	if e != 0 {
		return e
	}
	defer fs.dirs.put(to.dir)
	dst, e := backing.StatAt(to.dir.fd, r.nn)
	switch {
	case e == syscall.ENOENT:
	case e != 0:
		return e
	case r.exchange():
		if to.root == fs.lower {
			return syscall.EXDEV
		}
		if dst.Mode&unix.S_IFMT == unix.S_IFDIR && fs.shows(to.path) {
			return syscall.EXDEV
		}
	case to.root == fs.lower || isDir:
		if e := r.over(to, &dst, isDir); e != 0 {
			return e
		}
	}
	if e := fs.hide(to.path); e != 0 {
		return e
	}
	return fs.hide(from.path)
}

// over checks what rename(2) asks of the object it replaces, where the backing
// file system does not see all of it, and forgets one that is only below.
func (r *renaming) over(to place, dst *unix.Statx_t, isDir bool) syscall.Errno {
	fs := r.fs
	overDir := dst.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case r.flags == unix.RENAME_NOREPLACE:
		return syscall.EEXIST
	case isDir && !overDir:
		return syscall.ENOTDIR
	case !isDir && overDir:
		return syscall.EISDIR
	case overDir && (to.root == fs.lower || fs.shows(to.path)):
		if e := fs.empty(to, r.nn); e != 0 {
			return e
		}
	}
	if to.root == fs.lower {
		dst.Nlink = 1
		if _, e := fs.holdLast(r.np, r.nn, to.dir.fd); e != 0 {
			return e
		}
		fs.gone(r.np, r.nn, dst)
	}
	return 0
}
