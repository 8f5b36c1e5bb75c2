package worktree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/host/walk"
	"polis/daemon/store"
	"polis/internal/pinned"
)

// A workspace can lie in a directory of the owner of its project, who can then exchange it. What is read as root and
// given to an agent is opened below a descriptor of the workspace's .polis, which is root's.

// openOwn opens the .polis of the workspace: WORKSPACE_INVALID if a user put another directory at its path.
func (w *Workspace) openOwn() (*os.File, error) {
	dir, err := walk.Own(w.polis(), w.cfg.UID)
	return dir, w.misplaced(err)
}

// misplaced converts an error of package walk.
func (w *Workspace) misplaced(err error) error {
	return walk.Refused("the workspace "+w.cfg.Workspace, err)
}

// placed returns an error if a user put another directory at the path of the workspace, or could while the shared
// repository is used.
func (w *Workspace) placed() error {
	dir, err := w.openOwn()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the caller names what is missing
	}
	if err != nil {
		return err
	}
	return dir.Close()
}

// below calls f with a path by which this process reaches one in the .polis of the workspace, whatever is at the path
// of the workspace. Only root can exchange what is between them, up to the last component.
func (w *Workspace) below(path string, f func(path string) error) error {
	rel, err := filepath.Rel(w.polis(), path)
	if err != nil || !filepath.IsLocal(rel) {
		return fmt.Errorf("%s is not in %s: %w", path, w.polis(), os.ErrInvalid)
	}
	dir, err := w.openOwn()
	if err != nil {
		return err
	}
	defer dir.Close()
	return walk.Named(f(walk.Path(dir, rel)), dir, w.polis())
}

// Below is below for a file of polisd's own in the .polis of the workspace.
func (w *Workspace) Below(path string, f func(path string) error) error { return w.below(path, f) }

// openRoot is os.OpenRoot for a directory of the workspace.
func (w *Workspace) openRoot(path string) (root *os.Root, err error) {
	err = w.below(path, func(path string) (err error) { root, err = os.OpenRoot(path); return err })
	return root, err
}

// openBare opens the shared repository.
func (w *Workspace) openBare() (*os.Root, error) { return w.openRoot(w.bareDir()) }

// uncoveredTrees clones the directory of worktrees without what is mounted in it.
func (w *Workspace) uncoveredTrees() (fd int, err error) {
	err = w.below(w.treesDir(), func(path string) (err error) {
		fd, err = unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
		return err
	})
	return fd, err
}

// readRecord reads the recorded identity of the project. A user who owns a directory above the workspace could put another
// record there, and must be the owner that it names.
func (w *Workspace) readRecord() (r pinned.Record, err error) {
	path := w.layout().ProjectRecord()
	dir, owner, err := walk.Placed(filepath.Dir(path))
	if err != nil {
		return r, w.misplaced(err)
	}
	defer dir.Close()
	if err := store.ReadSummed(walk.Path(dir, filepath.Base(path)), &r); err != nil {
		return pinned.Record{}, err
	}
	return r, w.ownedBy(owner, r)
}

// ownedBy refuses a workspace in a directory of another user than the owner of the project.
func (w *Workspace) ownedBy(owner *uint32, r pinned.Record) error {
	if owner == nil || *owner == r.UID {
		return nil
	}
	return w.misplaced(fmt.Errorf("%w: it is in a directory of uid %d, and its project belongs to uid %d", walk.ErrForeign, *owner, r.UID))
}

// placedFor is placed for a project that is recorded now.
func (w *Workspace) placedFor(r pinned.Record) error {
	dir, owner, err := walk.Placed(w.polis())
	if err != nil {
		return w.misplaced(err)
	}
	return errors.Join(dir.Close(), w.ownedBy(owner, r))
}
