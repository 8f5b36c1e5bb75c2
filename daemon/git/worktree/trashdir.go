package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/host/private"
	"polis/fusefs/fdtree"
)

// moveToTrash moves what is left of a worktree to the trash directory, where a person can inspect
// it.
func (w *Workspace) moveToTrash(ctx context.Context, t Worktree) (dir string, err error) {
	done, err := w.lockMount(ctx, t.Agent)
	if err != nil {
		return "", err
	}
	defer done()
	dir, err = w.newTrashDir(t.Agent)
	if err != nil {
		return "", err
	}
	fail := func(err error) (string, error) {
		return "", api.Errorf(api.CodeWorktreeFailed, "move the rest of %s's old worktree to the trash: %w", t.Agent, err)
	}
	// What is moved are the agent's own changes; the copy of the record keeps the base below them.
	id, err := w.baseOf(t.Agent)
	if err == nil && id != "" {
		err = errors.Join(w.Detach(t.Agent), writeBase(filepath.Join(dir, trashBase), id))
	}
	if err != nil {
		return fail(err)
	}
	if err := os.Rename(t.Path, filepath.Join(dir, "worktree")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if err := w.moveAdmin(t.Agent, filepath.Join(dir, "gitdir")); err != nil {
		return fail(err)
	}
	if err := w.linkObjects(t.Agent, filepath.Join(dir, "objects")); err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "link the objects of %s in the trash: %w", t.Agent, err)
	}
	if id != "" {
		if err := fdtree.Cleanup(w.layout().Layers(t.Agent)); err != nil {
			return fail(err)
		}
	}
	// The owner gets the directory last: nothing in it can be exchanged while it is filled.
	if err := give(dir, w.cfg.UID, w.cfg.GID); err != nil {
		return fail(err)
	}
	w.cfg.Log.Warn("broken worktree moved to the trash", "agent", t.Agent, "op", "heal", "path", dir, "err", t.Broken)
	return dir, nil
}

// linkObjects gives every object that only the agent has a second name in the directory to, which
// it creates in a directory of root's. It follows no link that leads out of the agent's objects.
func (w *Workspace) linkObjects(agent, to string) error {
	from, err := os.OpenRoot(filepath.Dir(filepath.Dir(w.ownDir(agent))))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	objects, err := from.OpenRoot(filepath.Join(agent, filepath.Base(w.ownDir(agent))))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer objects.Close()
	dirs, err := entries(func() (*os.File, error) { return objects.Open(".") })
	if err != nil {
		return err
	}
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 && d.Name() != "pack" {
			continue
		}
		if err := linkFiles(objects, d.Name(), filepath.Join(to, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// linkFiles gives every regular file of a directory a second name in the directory to, which it
// creates.
func linkFiles(root *os.Root, name, to string) error {
	from, err := root.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	files, err := from.ReadDir(-1)
	if err != nil {
		return err
	}
	if err := private.Within(to); err != nil {
		return err
	}
	for _, f := range files {
		if !f.Type().IsRegular() {
			continue
		}
		if err := unix.Linkat(int(from.Fd()), f.Name(), unix.AT_FDCWD, filepath.Join(to, f.Name()), 0); err != nil {
			return &os.LinkError{Op: "link", Old: filepath.Join(from.Name(), f.Name()), New: to, Err: err}
		}
	}
	return nil
}

// newTrashDir makes a directory in the trash that only root can enter.
func (w *Workspace) newTrashDir(agent string) (string, error) {
	err := private.Within(w.trashDir())
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "make the trash directory: %w", err)
	}
	dir, err := os.MkdirTemp(w.trashDir(), agent+"."+w.cfg.Now().UTC().Format(stampFormat)+".")
	if err != nil {
		return "", api.Errorf(api.CodeWorktreeFailed, "make a place in the trash: %w", err)
	}
	return dir, nil
}
