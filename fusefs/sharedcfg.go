package fusefs

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// Shared says what a view shows that is not its own: files of the directory its
// tree was made from, seen where the tree has nothing, and inodes of a store
// that other views link too. Neither is ever changed: what is about to be
// changed becomes a file of the tree first, under the same name.
type Shared struct {
	// Lower is a descriptor of the directory that shows through, -1 for none;
	// New duplicates it. Nothing is ever written through it, and it ought to be
	// of a read-only mount, so that this does not depend on us.
	Lower int
	// Paths says which of its names show.
	Paths SharedPaths
	// Whiteouts has the names of them that the agent removed.
	Whiteouts Whiteouts
	// Stage is a descriptor of an empty private directory on the file system of
	// Roots[0]; New duplicates it. What is left in it by a crash can be removed.
	Stage int
	// Store keeps inodes that are linked by several views; nil for none.
	Store Store
	// StoreRoot is the index of the root in which files lie that Store may take.
	// Its names in the view's root directory are not listed.
	StoreRoot int
}

// SharedPaths is asked for every name and must not block.
type SharedPaths interface {
	// Top is the name at or above path that may show from below, "" if none.
	Top(path string) string
	// Shown says whether what is at top, a directory or not, does show.
	Shown(top string, dir bool) bool
}

// Whiteouts is a set of paths, each of which covers what is below it.
type Whiteouts interface {
	Has(path string) bool
	// Add returns when the name would survive the end of the process.
	Add(path string) error
}

// Store keeps immutable inodes.
type Store interface {
	// Shareable says whether the file at path, in Shared.StoreRoot, may have
	// content that is shared.
	Shareable(path string) bool
	// Marked says whether the object of a descriptor is one of a store's.
	Marked(fd int) bool
	// Admit returns an O_PATH descriptor of a marked inode with the content of
	// the file that is at path, or an error if it cannot be shared. The caller
	// closes it.
	Admit(ctx context.Context, path string, content int) (int, error)
}

// openShared takes over Config.Shared.
func (fs *FS) openShared() error {
	fs.lower, fs.stageDir = -1, -1
	s := fs.cfg.Shared
	if s == nil {
		return nil
	}
	if s.Lower >= 0 && (s.Paths == nil || s.Whiteouts == nil) || s.Store != nil && (s.StoreRoot <= 0 || s.StoreRoot >= len(fs.cfg.Roots)) {
		return fmt.Errorf("%w: shared", ErrConfig)
	}
	dup, err := unix.FcntlInt(uintptr(s.Stage), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return fmt.Errorf("fusefs: duplicate the staging directory: %w", err)
	}
	fs.stageDir = dup
	if s.Lower < 0 {
		return nil
	}
	if dup, err = unix.FcntlInt(uintptr(s.Lower), unix.F_DUPFD_CLOEXEC, 3); err != nil {
		return fmt.Errorf("fusefs: duplicate the lower directory: %w", err)
	}
	// The last root, so that the others keep their numbers.
	fs.lower, fs.roots = len(fs.roots), append(fs.roots, dup)
	return nil
}

func (fs *FS) closeShared() {
	if fs.stageDir > 0 {
		backing.Close(fs.stageDir)
		fs.stageDir = -1
	}
}

// owned is the number of roots that can be written.
func (fs *FS) owned() int {
	if fs.lower > 0 {
		return fs.lower
	}
	return len(fs.roots)
}
