package overlay

import (
	"context"
	"syscall"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
)

// Move is a rename, or an exchange, of two names.
type Move struct {
	OldParent, NewParent *inode.Node
	OldName, NewName     string
	Flags                uint32 // of renameat2(2)
	// Over is called before the object at the new name goes that is in the lower root
	// only, with the descriptor of its directory and its attributes.
	Over func(dir int, st *unix.Statx_t) syscall.Errno
}

// Exchange reports whether each name gets the object of the other.
func (m *Move) Exchange() bool { return m.Flags == unix.RENAME_EXCHANGE }

// CopyUpMoved makes what is moved the tree's own. A directory from below does
// not move as a whole, as on any overlay: EXDEV, and the caller copies. No lock is held.
func (l *Layers) CopyUpMoved(m *Move) syscall.Errno {
	if l.lower < 0 {
		return 0
	}
	e := l.raiseAt(m.OldParent, m.OldName)
	if e == 0 && m.Exchange() {
		e = l.raiseAt(m.NewParent, m.NewName)
	}
	return e
}

func (l *Layers) raiseAt(parent *inode.Node, name string) syscall.Errno {
	n := l.Tree.At(parent, name)
	if n == nil || !n.CopyUp() {
		return 0
	}
	l.Tree.Names.RLock()
	low := n.Root() == l.lower
	l.Tree.Names.RUnlock()
	switch {
	case !low:
		return 0 // a shared inode can change its name
	case n.IsDir():
		return syscall.EXDEV
	}
	s, e := l.stage(context.Background(), n, false)
	if e != 0 {
		return e
	}
	defer s.drop()
	l.Tree.Names.Lock()
	defer l.Tree.Names.Unlock()
	return l.settleStaged(n, s)
}

// WhiteOutMoved clears the way of a rename of what is at from. The name lock is held for writing.
func (l *Layers) WhiteOutMoved(m *Move, from Place) syscall.Errno {
	if l.lower < 0 || from.Root != 0 && from.Root != l.lower {
		return 0
	}
	if from.Root == l.lower {
		return syscall.ESTALE // it came to show this very moment
	}
	src, e := backing.StatAt(from.Dir.FD, m.OldName)
	if e != 0 {
		return e
	}
	isDir := src.Mode&unix.S_IFMT == unix.S_IFDIR
	if isDir && l.shows(from.path) {
		return syscall.EXDEV
	}
	to, e := l.At(m.NewParent, m.NewName)
	if e == syscall.ENOENT && to.Root == 0 {
		e = l.hide(to.path) // its directory is only below yet
		if e == 0 {
			e = l.hide(from.path)
		}
		return e
	}
	if e != 0 {
		return e
	}
	defer l.dirs.put(to.Dir)
	dst, e := backing.StatAt(to.Dir.FD, m.NewName)
	switch {
	case e == syscall.ENOENT:
	case e != 0:
		return e
	case m.Exchange():
		if to.Root == l.lower {
			return syscall.EXDEV
		}
		if dst.Mode&unix.S_IFMT == unix.S_IFDIR && l.shows(to.path) {
			return syscall.EXDEV
		}
	case to.Root == l.lower || isDir:
		if e := l.replaces(m, to, &dst, isDir); e != 0 {
			return e
		}
	}
	if e := l.hide(to.path); e != 0 {
		return e
	}
	return l.hide(from.path)
}

// replaces checks what rename(2) asks of the object it replaces, where the backing
// file system does not see all of it, and forgets one that is only below.
func (l *Layers) replaces(m *Move, to Place, dst *unix.Statx_t, isDir bool) syscall.Errno {
	overDir := dst.Mode&unix.S_IFMT == unix.S_IFDIR
	switch {
	case m.Flags == unix.RENAME_NOREPLACE:
		return syscall.EEXIST
	case isDir && !overDir:
		return syscall.ENOTDIR
	case !isDir && overDir:
		return syscall.EISDIR
	case overDir && (to.Root == l.lower || l.shows(to.path)):
		if e := l.empty(to, m.NewName); e != 0 {
			return e
		}
	}
	if to.Root == l.lower {
		return m.Over(to.Dir.FD, dst)
	}
	return 0
}
