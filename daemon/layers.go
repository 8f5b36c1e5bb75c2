package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"

	"polis/daemon/git/worktree"
	"polis/daemon/store/layout"
	"polis/fusefs/overlayfs"
)

// layers mounts the worktrees that are a base tree with an agent's changes above it.
type layers struct{}

func (layers) Mount(lower []string, upper, work, target string) error {
	return overlayfs.Mount(overlayfs.Layers{Lower: lower, Upper: upper, Work: work, Target: target})
}

func (layers) MountReadOnly(target string, dirs ...*os.File) error {
	return overlayfs.MountReadOnly(target, dirs...)
}

func (layers) Mounted(target string) (bool, error) { return overlayfs.Mounted(target) }

func (layers) Unmount(target string) error { return overlayfs.Unmount(target) }

func (layers) Changes(ctx context.Context, lower, upper *os.File, skip string, most int) ([]string, error) {
	return overlayfs.Changes(ctx, lower, upper, skip, most)
}

// unmountLayers unmounts the worktrees of all workspaces below the views, if no view uses them.
func unmountLayers(roots []layout.Workspace) error {
	var errs []error
	for _, root := range roots {
		w := worktree.Open(worktree.Config{Workspace: string(root), UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Mounts: layers{}})
		if err := w.DetachAll(); err != nil {
			errs = append(errs, fmt.Errorf("workspace %s: %w", root, err))
		}
	}
	return errors.Join(errs...)
}

// roots returns the directories of the loaded workspaces by their names.
func (d *Daemon) roots() map[string]layout.Workspace {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := make(map[string]layout.Workspace, len(d.workspaces))
	for name, w := range d.workspaces {
		out[name] = w.root
	}
	return out
}

// listedRoots returns the directories of all workspaces on the list, which --cleanup has not loaded.
func (d *Daemon) listedRoots() []layout.Workspace {
	reg, err := d.readRegistry()
	if err != nil {
		d.Log.Warn("list of workspaces not read; mounts below views may be left", "err", err)
	}
	out := make([]layout.Workspace, 0, len(reg.Workspaces))
	for _, path := range reg.Workspaces {
		out = append(out, layout.Workspace(path))
	}
	return out
}

// maintainBases removes the base trees that nothing uses.
func (d *Daemon) maintainBases(ctx context.Context, w *workspace) {
	if _, err := w.git.MaintainBases(ctx); err != nil {
		d.Log.Warn("base trees not maintained", "workspace", w.agents.Name, "err", err)
	}
}
