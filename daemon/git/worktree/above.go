package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git/base"
	"polis/internal/failpoint"
)

// The overlay of a worktree is below the agent's view (Attach), or above it (AttachAbove). Above it
// the shim mounts the overlay, and the kernel does not let two overlays use one upper directory:
// what the other changes shows in neither. So the daemon mounts none that can be written. It mounts
// one that is read-only for every reading, and what was read before is not in it.

// lowerSep is between the paths in layout.Workspace.LayersAbove: no path contains it.
const lowerSep = "\x00"

// SplitLower returns the lower layers that layout.Workspace.LayersAbove names: the base tree, and the files
// of the setup command, "" if there are none.
func SplitLower(text string) (base, setup string) {
	base, setup, _ = strings.Cut(text, lowerSep)
	return base, setup
}

// above reports whether the overlay of a worktree is above the view.
func (w *Workspace) above(agent string) (bool, error) {
	_, err := os.Lstat(w.layout().LayersAbove(agent))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// AttachAbove prepares the layers of an agent's worktree for a shim that mounts them above its view.
// For a full checkout it does nothing. After an error the layers are not mounted, and Attach can mount
// them.
func (w *Workspace) AttachAbove(ctx context.Context, agent string) error {
	if id, err := w.baseOf(agent); err != nil || id == "" || w.cfg.Mounts == nil {
		return err
	}
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "prepare the worktree of %s for an overlay above its view: %w", agent, err)
	}
	done, err := w.lockMount(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	id, err := w.baseOf(agent)
	if err != nil || id == "" {
		return err
	}
	if err := w.uncovered(agent, api.CodeWorktreeFailed); err != nil {
		return err
	}
	err = w.bases.Use(ctx, id, func(b base.Base) error {
		if err := w.makeMountDirs(agent); err != nil {
			return err
		}
		// First: what is mounted without this file can be written.
		path, lower := w.layout().LayersAbove(agent), w.lowerLayers(agent, b)
		if err := os.WriteFile(path+".new", []byte(strings.Join(lower, lowerSep)), 0o600); err != nil {
			return err
		}
		if err := os.Rename(path+".new", path); err != nil {
			return err
		}
		failpoint.Hit("layers:above")
		return w.mountFresh(agent, lower) // the kernel may not be able to
	})
	if err != nil {
		return fail(errors.Join(err, w.leaveAbove(agent)))
	}
	return nil
}

// makeMountDirs makes the directories of the mounts: a restored backup can lack the empty ones.
func (w *Workspace) makeMountDirs(agent string) error {
	l := w.layout()
	for _, dir := range []string{l.LayersWork(agent), l.LayersMerged(agent)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return nil
}

// leaveAbove makes the layers those of a worktree whose overlay is below the view. The agent must have
// no shim. The lock of the mount is held.
func (w *Workspace) leaveAbove(agent string) error {
	is, err := w.above(agent)
	if err != nil || !is {
		return err
	}
	if err := w.uncovered(agent, api.CodeWorktreeFailed); err != nil {
		return err
	}
	if err := w.Detach(agent); err != nil {
		return err
	}
	return os.Remove(w.layout().LayersAbove(agent))
}

// Writable makes the files that Lower opens ones that can be changed. While an agent runs whose overlay
// is above its view, they change through the overlay alone: that is BAD_STATE.
func (w *Workspace) Writable(ctx context.Context, agent string) error {
	is, err := w.above(agent)
	if err != nil || !is {
		return err
	}
	if err := w.uncovered(agent, api.CodeBadState); err != nil {
		if api.CodeOf(err) != api.CodeBadState {
			return err
		}
		return api.Errorf(api.CodeBadState, "the files of agent %s change through its overlay only while it runs: %w", agent, err).
			WithHint("polisctl agents stop %s, then restore, then polisctl agents start %s", agent, agent)
	}
	return w.Attach(ctx, agent)
}

// openFresh opens the files of a worktree whose overlay is above the view, as they are now.
func (w *Workspace) openFresh(ctx context.Context, agent string) (*os.File, error) {
	done, err := w.lockMount(ctx, agent)
	if err != nil {
		return nil, err
	}
	defer done()
	id, err := w.baseOf(agent)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, api.Errorf(api.CodeWorktreeFailed, "the worktree of %s was removed", agent)
	}
	var dir *os.File
	err = w.bases.Use(ctx, id, func(b base.Base) error {
		if err := w.makeMountDirs(agent); err != nil {
			return err
		}
		if err := w.mountFresh(agent, w.lowerLayers(agent, b)); err != nil {
			return err
		}
		return w.below(w.layout().LayersMerged(agent), func(path string) (err error) { dir, err = openDir(path, agent); return err })
	})
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "mount the worktree of %s to read it: %w", agent, err)
	}
	return dir, nil
}

// mountFresh mounts the agent's changes and the lower layers read-only, replacing an earlier such
// mount. A process that has the earlier one open continues to read it.
func (w *Workspace) mountFresh(agent string, layers []string) error {
	merged := w.layout().LayersMerged(agent)
	if err := w.cfg.Mounts.Unmount(merged); err != nil {
		return err
	}
	trees, err := w.uncoveredTrees() // the agent's overlay covers its changes
	if err != nil {
		return fmt.Errorf("open the tree below the overlay of %s: open_tree: %w", agent, err)
	}
	defer unix.Close(trees)
	own, err := openPath(trees, agent)
	if err != nil {
		return err
	}
	defer own.Close()
	dirs := []*os.File{own}
	for _, path := range layers {
		dir, err := openPath(unix.AT_FDCWD, path)
		if err != nil {
			return err
		}
		defer dir.Close()
		dirs = append(dirs, dir)
	}
	return w.cfg.Mounts.MountReadOnly(merged, dirs...)
}

func openPath(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "openat", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), nil
}
