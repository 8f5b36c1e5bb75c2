package overlay

import (
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
	"polis/fusefs/inode"
	"polis/fusefs/openfile"
)

// ErrShared is returned for a Shared whose parts do not fit together.
var ErrShared = errors.New("fusefs: shared is incomplete")

// Rules say in which root a name lives.
type Rules interface {
	// Route returns the index of the root. It is pure: the same path always gives the
	// same index, and a name below a directory routed to root i>0 is also i.
	Route(path string) int
}

// Generations counts the changes of routes: an equal number means unchanged routes.
type Generations interface{ Generation() uint64 }

// Layers are the backing roots of a view. The exported fields are set before Start, but
// for Tree, which is set before the first name is resolved.
type Layers struct {
	Tree        *inode.Table
	Passthrough *openfile.Passthrough
	Rules       Rules
	Generations Generations // nil: routes may change at any time
	Shared      *Shared     // nil for nothing
	Log         *slog.Logger
	// Work is the descriptor of the work directory of an overlay of which the main root is the upper
	// layer; 0 for none. Start duplicates it.
	Work int
	// Made is called for each object that is made (1) or removed (-1) here.
	Made func(parent *inode.Node, name string, n int)
	// Undated makes the keys of objects. Start sets it.
	Undated inode.Undated

	roots []int
	top   []DirFD // the roots, for those who want a directory
	work  DirFD
	dirs  *dirCache
	// lower is the index of the root that shows through, -1 if none; stageDir a
	// directory for files that are being made private. See Shared.
	lower, stageDir int
	staged          atomic.Uint64 // names given out in stageDir
	apart           bool          // the main root is on another mount than stageDir
}

// Start duplicates the roots, of which the first is the main one, and takes over
// Shared. At most so many descriptors of directories are kept.
func (l *Layers) Start(roots []int, descriptors int) error {
	l.lower, l.stageDir, l.dirs = -1, -1, newDirCache(descriptors)
	for i, fd := range roots {
		dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			return fmt.Errorf("fusefs: duplicate root %d: %w", i, err)
		}
		l.roots = append(l.roots, dup)
	}
	if err := l.openWork(); err != nil {
		return err
	}
	if err := l.openShared(); err != nil {
		return err
	}
	for i, fd := range l.roots {
		l.top = append(l.top, DirFD{FD: fd, fixed: true})
		var st unix.Statfs_t
		if err := unix.Fstatfs(fd, &st); err != nil {
			return fmt.Errorf("fusefs: file system of root %d: %w", i, err)
		}
		l.Undated = append(l.Undated, st.Type == unix.OVERLAYFS_SUPER_MAGIC)
	}
	return nil
}

func (l *Layers) openWork() error {
	if l.Work <= 0 {
		return nil
	}
	dup, err := unix.FcntlInt(uintptr(l.Work), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("fusefs: duplicate the work directory: %w", err)
	}
	l.work = DirFD{FD: dup, fixed: true}
	return nil
}

// openShared takes over Shared.
func (l *Layers) openShared() error {
	s := l.Shared
	if s == nil {
		return nil
	}
	if s.Lower >= 0 && (s.Paths == nil || s.Whiteouts == nil) || s.Store != nil && (s.StoreRoot <= 0 || s.StoreRoot >= len(l.roots)) {
		return ErrShared
	}
	dup, err := unix.FcntlInt(uintptr(s.Stage), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("fusefs: duplicate the staging directory: %w", err)
	}
	l.stageDir = dup
	same, e := backing.SameMount(l.stageDir, l.roots[0])
	if e != 0 {
		return fmt.Errorf("fusefs: compare the mounts of the staging directory and the tree: %w", e)
	}
	l.apart = !same
	if s.Lower < 0 {
		return nil
	}
	if dup, err = unix.FcntlInt(uintptr(s.Lower), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return fmt.Errorf("fusefs: duplicate the lower directory: %w", err)
	}
	// The last root, so that the others keep their numbers.
	l.lower, l.roots = len(l.roots), append(l.roots, dup)
	return nil
}

// Close closes all descriptors. It may be called again.
func (l *Layers) Close() {
	if l.dirs != nil {
		l.dirs.closeAll()
	}
	for _, fd := range l.roots {
		backing.Close(fd)
	}
	l.roots = nil
	if l.work.fixed {
		backing.Close(l.work.FD)
		l.work = DirFD{}
	}
	if l.stageDir > 0 {
		backing.Close(l.stageDir)
		l.stageDir = -1
	}
}

// Main is the descriptor of the main root.
func (l *Layers) Main() int { return l.roots[0] }

// writableRoots is the number of roots that can be written.
func (l *Layers) writableRoots() int {
	if l.lower > 0 {
		return l.lower
	}
	return len(l.roots)
}

// Merges reports whether a lower root shows through. Then what a name stands for may
// change at any time.
func (l *Layers) Merges() bool { return l.lower >= 0 }

// IsLower reports whether an object is in the lower root, which the user changes.
func (l *Layers) IsLower(n *inode.Node) bool { return n.Root() == l.lower }

// MayAppear reports whether a name that does not exist may come to show from below.
func (l *Layers) MayAppear(parent *inode.Node, name string) bool {
	return l.lower >= 0 && l.Shared.Paths.Top(l.Tree.Child(parent, name)) != ""
}

// Put gives a directory back.
func (l *Layers) Put(d *DirFD) { l.dirs.put(d) }

// Drop forgets the descriptors of a directory that is gone, forgotten or replaced.
func (l *Layers) Drop(n *inode.Node) { l.dirs.drop(n, len(l.roots)) }

// Descriptors is the number of directories that are kept open.
func (l *Layers) Descriptors() int { return l.dirs.len() }

// Generation is that of the verdicts given now; 0 if none holds.
func (l *Layers) Generation() uint64 {
	if l.Generations == nil {
		return 0
	}
	return l.Tree.VerdictGeneration(l.Generations.Generation())
}
