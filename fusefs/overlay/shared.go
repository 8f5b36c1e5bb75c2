package overlay

import (
	"context"
)

// Shared describes what a view shows that is not its own: files of the directory its
// tree was made from, seen where the tree has nothing, and inodes of a store
// that other views link too. Neither is ever changed: what is about to be
// changed becomes a file of the tree first, under the same name.
type Shared struct {
	// Lower is a descriptor of the directory that shows through, -1 for none;
	// New duplicates it. Nothing is ever written through it, and it ought to be
	// of a read-only mount, so that this does not depend on us.
	Lower int
	// Paths selects which of its names show.
	Paths Paths
	// Whiteouts has the names of them that the agent removed.
	Whiteouts Whiteouts
	// Stage is a descriptor of an empty private directory on the mount of the writable roots;
	// New duplicates it. What is left in it by a crash can be removed. Roots[0] may be on another
	// mount: without O_TMPFILE there, the first change of a file from below is EXDEV. Nothing of
	// Store is linked into it.
	Stage int
	// Store keeps inodes that are linked by several views; nil for none.
	Store Store
	// StoreRoot is the index of the root in which files lie that Store may take.
	// Its names in the view's root directory are not listed.
	StoreRoot int
}

// Paths is called for every name and must not block.
type Paths interface {
	// Top is the name at or above path that may show from below, "" if none.
	Top(path string) string
	// Shown reports whether what is at top, a directory or not, does show.
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
	// Shareable reports whether the file at path, in Shared.StoreRoot, may have
	// content that is shared.
	Shareable(path string) bool
	// Marked reports whether the object of a descriptor is one of a store's.
	Marked(fd int) bool
	// Admit returns an O_PATH descriptor of a marked inode with the content of
	// the file that is at path, or an error if it cannot be shared. The caller
	// closes it.
	Admit(ctx context.Context, path string, content int) (int, error)
}
