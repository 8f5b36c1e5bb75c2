package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/git"
)

// layered lists the agents whose worktrees have layers.
func (w *Workspace) layered() ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(w.layout().Layers("x")))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "list the layers of worktrees: %w", err)
	}
	var names []string
	for _, e := range entries {
		if api.CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// baseMounted reports whether the base is the lower layer of a mount.
func (w *Workspace) baseMounted(id string) (bool, error) {
	if w.cfg.Mounts == nil {
		return false, nil
	}
	names, err := w.layered()
	if err != nil {
		return true, err
	}
	for _, agent := range names {
		of, err := w.baseOf(agent)
		if err != nil {
			return true, err
		}
		if of != id {
			continue
		}
		if there, err := w.cfg.Mounts.Mounted(w.layout().LayersMerged(agent)); err != nil || there {
			return true, err
		}
		if is, err := w.above(agent); err != nil || is {
			if there, merr := mounted(w.tree(agent)); err != nil || merr != nil || there {
				return true, errors.Join(err, merr)
			}
		}
	}
	return w.setupMounted(id)
}

// baseUsed reports whether a worktree, or one that was moved to the trash, names the base.
func (w *Workspace) baseUsed(id string) (bool, error) {
	names, err := w.layered()
	if err != nil {
		return true, err
	}
	paths := make([]string, 0, len(names))
	for _, agent := range names {
		paths = append(paths, w.layout().LayersBase(agent))
	}
	dirs, err := w.trashDirs()
	if err != nil {
		return true, err
	}
	for _, d := range dirs {
		paths = append(paths, filepath.Join(d.Path, trashBase))
	}
	runs, err := w.setupRuns()
	if err != nil {
		return true, err
	}
	for _, dir := range runs {
		paths = append(paths, filepath.Join(dir, setupBase))
	}
	for _, p := range paths {
		if of, err := readBase(p); err != nil || of == id {
			return true, err
		}
	}
	return false, nil
}

// trashBase is the file of a directory in the trash that names the base of the worktree there.
const trashBase = "base"

// verifyAge is how long the files of a base may go without a comparison with git.
const verifyAge = 7 * 24 * time.Hour

// MaintainBases removes the bases that nothing uses, writes the others to the disk, compares those
// that were not compared for long with git, and returns the ids it removed.
func (w *Workspace) MaintainBases(ctx context.Context) ([]string, error) {
	removed, err := w.bases.Collect(ctx, w.baseUsed)
	if err = errors.Join(err, w.bases.Sync(ctx), w.bases.Verify(ctx, verifyAge)); err != nil {
		return removed, api.Errorf(api.CodeWorktreeFailed, "maintain the base trees: %w", err)
	}
	return removed, nil
}

// sweepLayers removes the layers whose worktree is gone: a removal was interrupted.
func (w *Workspace) sweepLayers(ctx context.Context) error {
	names, err := w.layered()
	for _, agent := range names {
		if _, serr := os.Lstat(w.tree(agent)); errors.Is(serr, fs.ErrNotExist) {
			err = errors.Join(err, w.dropLayers(ctx, agent))
		}
	}
	return err
}

// FirstTree returns the git tree of the first of revs that exists. An empty one, and the empty name of
// a branch, do not.
func (w *Workspace) FirstTree(ctx context.Context, revs ...string) (string, error) {
	for _, rev := range revs {
		if rev == "" || rev == git.Branch("") {
			continue
		}
		tree, err := w.Bare().Line(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", rev+"^{tree}")
		if _, missing := git.ExitCode(err); !missing {
			return tree, err
		}
	}
	return "", git.ErrNotFound
}
