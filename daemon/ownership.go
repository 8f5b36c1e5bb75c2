package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/launcher"
	"polis/daemon/layout"
	"polis/daemon/owner"
	"polis/daemon/placement"
	"polis/daemon/shim/wire"
	"polis/daemon/store"
)

// self returns the text that identifies this daemon in the lock files that it holds.
func (d *Daemon) self() owner.Owner {
	return owner.Owner{PID: os.Getpid(), RunDir: string(d.run), Socket: d.run.Socket()}
}

// takeDirs ensures that no other daemon uses the run directory or the list of workspaces.
func (d *Daemon) takeDirs(ctx context.Context) error {
	if err := d.takeRunDir(ctx); err != nil {
		return err
	}
	path := layout.WorkspacesLock(d.Config.WorkspacesDir)
	if placement.RealPath(path) == placement.RealPath(d.run.PidLock()) {
		return nil // one directory for both
	}
	l, err := owner.Hold(ctx, path, d.self())
	if err != nil {
		return owned("workspaces_dir "+d.Config.WorkspacesDir, err)
	}
	d.held = append(d.held, l)
	return nil
}

// takeRunDir ensures that no other daemon uses the run directory.
func (d *Daemon) takeRunDir(ctx context.Context) error {
	l, err := owner.Hold(ctx, d.run.PidLock(), d.self())
	var held *owner.HeldError
	switch {
	case errors.As(err, &held):
		return api.Errorf(api.CodeUnavailable, "another polisd uses %s: %w", d.run, err).WithHint("stop it, or give this one another run_dir")
	case err != nil:
		return fmt.Errorf("take the run directory: %w", err)
	}
	d.lock = l
	return nil
}

// takeWorkspace ensures that no other daemon uses a workspace: neither a running one, nor one that
// left agents behind.
func (d *Daemon) takeWorkspace(ctx context.Context, root layout.Workspace) (*owner.Lock, error) {
	before, err := owner.Read(root.Owner())
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "read the owner of workspace %s: %w", root, err)
	}
	l, err := owner.Hold(ctx, root.Owner(), d.self())
	if err != nil {
		return nil, owned("workspace "+string(root), err)
	}
	agents, err := left(before, string(d.run), root)
	if err == nil && len(agents) > 0 {
		err = api.Errorf(api.CodeWorkspaceOwned, "workspace %s: its agents %s are still those of the polisd with run_dir %s, which has ended without them", root, strings.Join(agents, ", "), before.RunDir).
			With("run_dir", before.RunDir).With("agents", agents).WithHint("start that polisd and stop it with its agents, then try again")
	}
	if err != nil {
		return nil, errors.Join(err, l.Release())
	}
	return l, nil
}

// left returns the agents of a workspace whose shims another daemon has left behind.
func left(before owner.Owner, own string, root layout.Workspace) ([]string, error) {
	if before.RunDir == "" || before.RunDir == own {
		return nil, nil
	}
	run := layout.Run(before.RunDir)
	names, err := (&launcher.Fork{}).Names(run.Agents())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		var sp wire.Spec
		err := store.ReadSummed(run.AgentSpec(n), &sp)
		// A shim whose spec cannot be read can be of this workspace.
		if err != nil || placement.Below(sp.Mountpoint, filepath.Clean(string(root))) {
			out = append(out, n)
		}
	}
	return out, nil
}

// owned makes the error for a directory of another user.
func owned(what string, err error) error {
	var held *owner.HeldError
	if !errors.As(err, &held) {
		return fmt.Errorf("take %s: %w", what, err)
	}
	o := held.Owner
	return api.Errorf(api.CodeWorkspaceOwned, "%s belongs to %s: %w", what, o, err).
		With("pid", o.PID).With("run_dir", o.RunDir).With("socket", o.Socket).
		WithHint("use that one (polisctl --socket %s), or stop it with its agents; or give this one another workspaces_dir", o.Socket)
}

// Release releases the run directory and the workspaces. It is called last: another polisd may
// start from then on.
func (d *Daemon) Release() error {
	var errs []error
	// Without agents nothing is left. With agents, the files still name their owner.
	_, err := os.Lstat(d.run.Agents())
	empty := errors.Is(err, os.ErrNotExist)
	give := func(l *owner.Lock, remove bool) {
		if remove {
			errs = append(errs, l.Remove())
		} else {
			errs = append(errs, l.Release())
		}
	}
	d.mu.Lock()
	for _, w := range d.workspaces {
		if w.owner != nil {
			give(w.owner, empty)
			w.owner = nil
		}
	}
	d.mu.Unlock()
	for _, l := range d.held {
		give(l, empty)
	}
	if d.lock != nil {
		give(d.lock, empty && !d.Systemd)
	}
	d.held, d.lock = nil, nil
	return errors.Join(errs...)
}
