package overlay

import (
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// WhiteOut prepares the removal of a name that shows from below, or would when
// the tree's own is gone: it is remembered as gone first, so that a crash in
// between brings nothing back. st is what the view shows. The name lock is held for writing.
func (l *Layers) WhiteOut(p Place, name string, st *unix.Statx_t, rmdir bool) syscall.Errno {
	if l.lower < 0 || p.Root != 0 && p.Root != l.lower {
		return 0
	}
	if p.Root == 0 && !l.shows(p.path) {
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
		if e := l.empty(p, name); e != 0 {
			return e
		}
	}
	return l.hide(p.path)
}

// empty says ENOTEMPTY of a directory that holds anything, in the tree or from
// below.
func (l *Layers) empty(p Place, name string) syscall.Errno {
	if len(l.below(nil, p.path)) > 0 {
		return syscall.ENOTEMPTY
	}
	if p.Root == l.lower {
		return 0
	}
	fd, e := backing.OpenAt(p.Dir.FD, name, unix.O_PATH|unix.O_DIRECTORY, 0)
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
