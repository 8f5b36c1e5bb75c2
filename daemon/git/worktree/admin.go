package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/fusefs/fdtree"
)

// The owner of the workspace can replace everything in the shared repository, also by links. The
// functions here reach it below a descriptor of its directory, whose parent is root's, and follow
// no link that leads out of it.

// parts is the directory of the shared repository with one part for each worktree.
const parts = "worktrees"

// openAdmin opens an agent's part of the shared repository.
func (w *Workspace) openAdmin(agent string) (*os.Root, error) {
	bare, err := w.openBare()
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	return bare.OpenRoot(filepath.Join(parts, agent))
}

// makeAdmin makes an agent's part of the shared repository, which is root's until it is complete.
func (w *Workspace) makeAdmin(agent string) (*os.Root, error) {
	bare, err := w.openBare()
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	name := filepath.Join(parts, agent)
	if err := bare.Mkdir(name, 0o755); err != nil {
		return nil, err
	}
	return bare.OpenRoot(name)
}

// openParts opens the directory that has the parts of all worktrees.
func (w *Workspace) openParts() (*os.File, error) {
	bare, err := w.openBare()
	if err != nil {
		return nil, err
	}
	defer bare.Close()
	return bare.OpenFile(parts, os.O_RDONLY|unix.O_DIRECTORY, 0)
}

// removeAdmin removes an agent's part of the shared repository, if there is one.
func (w *Workspace) removeAdmin(ctx context.Context, agent string) error {
	dir, err := w.openParts()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	return fdtree.RemoveAt(ctx, int(dir.Fd()), agent, w.admin(agent))
}

// moveAdmin renames an agent's part of the shared repository to a path in a directory of root's, if
// there is one.
func (w *Workspace) moveAdmin(agent, to string) error {
	dir, err := w.openParts()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	err = unix.Renameat(int(dir.Fd()), agent, unix.AT_FDCWD, to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &os.LinkError{Op: "rename", Old: w.admin(agent), New: to, Err: err}
	}
	return nil
}

// unlock removes the lock of a worktree that is complete.
func (w *Workspace) unlock(agent string) error {
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	return admin.Remove("locked")
}

// newFile makes a file with the mode that git gives its own. It is an error if anything has that name.
func newFile(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
}

// createFile makes a file of the owner's. It is an error if anything has that name.
func (w *Workspace) createFile(root *os.Root, name, text string) error {
	f, err := newFile(root, name)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, text)
	return errors.Join(err, w.giveFile(f), f.Close())
}

// giveFile makes the owner of the workspace the owner of an open file.
func (w *Workspace) giveFile(f *os.File) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return f.Chown(int(w.cfg.UID), int(w.cfg.GID))
}

// giveDir makes the owner of the workspace the owner of a directory.
func (w *Workspace) giveDir(root *os.Root, name string) error {
	dir, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(w.giveFile(dir), dir.Close())
}

// writeAdmin makes a file in an agent's part of the git directory, which must not exist.
func (w *Workspace) writeAdmin(admin *os.Root, name string, fill func(io.Writer) error) error {
	f, err := newFile(admin, name)
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f), w.giveFile(f), f.Close()); err != nil {
		return errors.Join(err, admin.Remove(name))
	}
	return nil
}
