package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/host/private"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// AddCopy makes an agent's worktree of the copy that CopyLayers made for it, on a new branch at head.
func (w *Workspace) AddCopy(ctx context.Context, agent, branch, head string) (Worktree, error) {
	return w.add(ctx, agent, branch, head, func(string) bool { return false }, true)
}

// placeCopy links the worktree of an agent to the repository and moves the copied files there. The
// lock of the worktree is first: without it, an interrupted move would leave files that seem to be
// work.
func (w *Workspace) placeCopy(agent, branch, commit string) error {
	return w.linkTo(agent, branch, commit, func() error {
		failpoint.Hit("copy:linked")
		return os.Rename(filepath.Join(w.layout().LayersCopy(agent), copyUpper), w.tree(agent))
	})
}

// finishCopy moves the rest of the copy and mounts the layers, and then removes the lock of the
// worktree.
func (w *Workspace) finishCopy(ctx context.Context, agent string) error {
	failpoint.Hit("copy:placed")
	dir := w.layout().LayersCopy(agent)
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := moveInto(filepath.Join(dir, copyIndex), admin, "index"); err != nil {
		return err
	}
	if err := moveInto(filepath.Join(dir, copyModules), admin, nestedModules); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := w.ownObjects(agent, filepath.Join(dir, copyObjects)); err != nil {
		return err
	}
	if err := w.finishData(ctx, agent, filepath.Join(dir, copyData)); err != nil {
		return err
	}
	if err := os.Remove(dir); err != nil {
		return err
	}
	if err := w.Attach(ctx, agent); err != nil {
		return err
	}
	failpoint.Hit("copy:mounted")
	return w.unlock(agent)
}

// moveInto renames a path in a directory of root's to a name in an open directory.
func moveInto(from string, dir *os.Root, name string) error {
	f, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Renameat(unix.AT_FDCWD, from, int(f.Fd()), name); err != nil {
		return &os.LinkError{Op: "rename", Old: from, New: filepath.Join(dir.Name(), name), Err: err}
	}
	return nil
}

// ownObjects makes a directory of objects the agent's own. It may be missing.
func (w *Workspace) ownObjects(agent, from string) error {
	if _, err := os.Lstat(from); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := w.layout().Privates()
	if err := private.Within(all); err != nil {
		return err
	}
	root, err := os.OpenRoot(all)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := root.Mkdir(agent, 0o700); err == nil {
		err = w.giveDir(root, agent)
		if err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	private, err := root.OpenRoot(agent)
	if err != nil {
		return err
	}
	defer private.Close()
	return moveInto(from, private, filepath.Base(w.ownDir(agent))) // it has none yet
}

// finishData gives an agent what CopyLayers copied of the data of other tools.
func (w *Workspace) finishData(ctx context.Context, agent, dir string) error {
	data, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	err = w.takeData(ctx, agent, data)
	return errors.Join(err, data.Close(), fdtree.RemoveAll(ctx, dir))
}
