package daemonlock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/host/walk"
	"polis/daemon/store/layout"
	"polis/daemon/workspace/placement"
)

// Shims are the shims that a daemon has left behind.
type Shims interface {
	// Names returns the agents whose shims run below a directory.
	Names(agentsDir string) ([]string, error)
	// Mountpoint returns where the view of a shim is mounted, from its spec.
	Mountpoint(spec string) (string, error)
}

// Claimer takes directories for one daemon. Each error names the directory, its owner and what to do.
type Claimer struct {
	Me    Owner
	Shims Shims
}

// RunDir takes the run directory.
func (c Claimer) RunDir(ctx context.Context, run layout.Run) (*Lock, error) {
	l, err := Hold(ctx, run.PidLock(), c.Me)
	var held *HeldError
	switch {
	case errors.As(err, &held):
		return nil, api.Errorf(api.CodeUnavailable, "another polisd uses %s: %w", run, err).WithHint("stop it, or give this one another run_dir")
	case err != nil:
		return nil, fmt.Errorf("take the run directory: %w", err)
	}
	return l, nil
}

// WorkspacesDir takes the directory with the list of workspaces. It returns nil if the run directory,
// which is taken, is the same directory.
func (c Claimer) WorkspacesDir(ctx context.Context, dir string, run layout.Run) (*Lock, error) {
	path := layout.WorkspacesLock(dir)
	if placement.RealPath(path) == placement.RealPath(run.PidLock()) {
		return nil, nil
	}
	l, err := Hold(ctx, path, c.Me)
	if err != nil {
		return nil, claimed("workspaces_dir "+dir, err)
	}
	return l, nil
}

// Workspace takes a workspace that no other daemon uses: neither a running one, nor one that left
// agents behind.
func (c Claimer) Workspace(ctx context.Context, root layout.Workspace) (*Lock, error) {
	// A user in whose directory it lies can put another one there, and root is about to write in it.
	dir, _, err := walk.Placed(root.Dir())
	switch {
	case err == nil:
		defer dir.Close()
	case errors.Is(err, walk.ErrForeign):
		return nil, walk.Refused("the workspace "+string(root), err)
	case !errors.Is(err, os.ErrNotExist):
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "open workspace %s: %w", root, err)
	}
	if _, err := Read(root.Owner()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, api.Errorf(api.CodeWorkspaceInvalid, "read the owner of workspace %s: %w", root, err)
	}
	l, err := hold(ctx, root.Owner(), c.Me, func(before Owner) error {
		agents, err := c.left(before, root)
		if err != nil || len(agents) == 0 {
			return err
		}
		return api.Errorf(api.CodeWorkspaceOwned, "workspace %s: its agents %s are still those of the polisd with run_dir %s, which has ended without them", root, strings.Join(agents, ", "), before.RunDir).
			With("run_dir", before.RunDir).With("agents", agents).WithHint("start that polisd and stop it with its agents, then try again")
	})
	if err != nil {
		return nil, claimed("workspace "+string(root), err)
	}
	return l, nil
}

// left returns the agents of a workspace whose shims another daemon has left behind.
func (c Claimer) left(before Owner, root layout.Workspace) ([]string, error) {
	if before.RunDir == "" || before.RunDir == c.Me.RunDir {
		return nil, nil
	}
	run := layout.Run(before.RunDir)
	names, err := c.Shims.Names(run.Agents())
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range names {
		at, err := c.Shims.Mountpoint(run.AgentSpec(n))
		// A shim whose spec cannot be read can be of this workspace.
		if err != nil || layout.Below(at, filepath.Clean(string(root))) {
			out = append(out, n)
		}
	}
	return out, nil
}

// claimed returns the error for a directory that another daemon holds.
func claimed(what string, err error) error {
	var held *HeldError
	if api.CodeOf(err) == api.CodeWorkspaceOwned {
		return err
	}
	if !errors.As(err, &held) {
		return fmt.Errorf("take %s: %w", what, err)
	}
	o := held.Owner
	return api.Errorf(api.CodeWorkspaceOwned, "%s belongs to %s: %w", what, o, err).
		With("pid", o.PID).With("run_dir", o.RunDir).With("socket", o.Socket).
		WithHint("use that one (polisctl --socket %s), or stop it with its agents; or give this one another workspaces_dir", o.Socket)
}

// Give ends a claim. Without agents the file is removed; with agents it still names their owner.
func (l *Lock) Give(agentsLeft bool) error {
	if agentsLeft {
		return l.Release()
	}
	return l.Remove()
}
