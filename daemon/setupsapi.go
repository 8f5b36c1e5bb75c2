package daemon

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/agent/setup"
	"polis/daemon/api"
	"polis/daemon/git"
)

// maxSetupLog is how much of the end of a log the API returns, in bytes.
const maxSetupLog = 256 << 10

// Add waits for the setup first, if the request has WaitSetup.
func (b *backend) Add(ctx context.Context, req api.AddRequest) (api.Agent, error) {
	if req.WaitSetup {
		if err := b.awaitSetup(ctx, req); err != nil {
			return api.Agent{}, err
		}
	}
	a, err := b.Manager.Add(ctx, req)
	if err != nil {
		return a, err
	}
	for _, w := range b.gitWorkspaces(a.Workspace) {
		a.Warnings = append(a.Warnings, b.submoduleNotice(ctx, w, a.Name)...)
	}
	return a, nil
}

// awaitSetup waits for the setup of the commit that a new agent starts from. A failed setup is an
// event and no error: the agent starts without.
func (b *backend) awaitSetup(ctx context.Context, req api.AddRequest) error {
	ws, err := b.Workspace(req.Workspace)
	if err != nil {
		return err
	}
	all := b.gitWorkspaces(ws.Name)
	if len(all) == 0 {
		return nil
	}
	tree, err := all[0].git.FirstTree(ctx, req.At, git.Branch(req.Branch), req.Base, git.Branch(ws.Target))
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "find the commit that %s starts from: %w", req.Name, err)
	}
	if err := all[0].setup.Await(ctx, tree, setup.IfMissing); err != nil {
		b.Daemon.Log.Warn("agent starts without the setup", "agent", req.Name, "op", "setup", "err", err)
	}
	return ctx.Err()
}

// setupOf returns the workspace of a request about its setup.
func (b *backend) setupOf(name string) (*workspace, error) {
	ws, err := b.Workspace(name)
	if err != nil {
		return nil, err
	}
	if err := ws.NeedsGit("a setup is made for a commit"); err != nil {
		return nil, err
	}
	all := b.gitWorkspaces(ws.Name)
	if len(all) == 0 || all[0].setup == nil {
		return nil, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
	}
	return all[0], nil
}

// Setups describes the setup of all workspaces, or of one.
func (b *backend) Setups(ctx context.Context, workspace string) ([]api.Setup, error) {
	if workspace != "" {
		w, err := b.setupOf(workspace)
		if err != nil {
			return nil, err
		}
		workspace = w.agents.Name
	}
	out := []api.Setup{}
	for _, w := range b.gitWorkspaces(workspace) {
		s, err := w.setup.Status(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// RunSetup runs the setup command for the target branch, and waits for its end. It continues if the
// caller leaves.
func (b *backend) RunSetup(ctx context.Context, req api.SetupRequest, say func(string)) (api.Setup, error) {
	w, err := b.setupOf(req.Workspace)
	if err != nil {
		return api.Setup{}, err
	}
	rules := w.setup.Rules()
	if *rules.Run == "" {
		return api.Setup{}, api.Errorf(api.CodeBadState, "workspace %s has no setup command", w.agents.Name).WithHint("set run and inputs in [workspace.setup] of polisd.toml")
	}
	tree, err := w.setup.Target(ctx)
	if err != nil {
		return api.Setup{}, api.Errorf(api.CodeWorktreeFailed, "read the target branch: %w", err)
	}
	how := setup.IfFailed
	if req.Again {
		how = setup.Again
	}
	say("running the setup of workspace " + w.agents.Name)
	if err := w.setup.Await(ctx, tree, how); err != nil {
		return api.Setup{}, err
	}
	return w.setup.Status(ctx)
}

// SetupLog returns the end of the log of the last run.
func (b *backend) SetupLog(workspace string) (api.SetupLog, error) {
	w, err := b.setupOf(workspace)
	if err != nil {
		return api.SetupLog{}, err
	}
	out := api.SetupLog{Workspace: w.agents.Name}
	logs, err := os.ReadDir(w.root.SetupLogs()) // their names sort by time
	if err != nil || len(logs) == 0 {
		return out, api.Errorf(api.CodeBadState, "the setup command of workspace %s has not run yet", w.agents.Name).WithHint("polisctl setup shows its state")
	}
	out.Log = filepath.Join(w.root.SetupLogs(), logs[len(logs)-1].Name())
	if out.Text, out.Truncated, err = fileEnd(out.Log, maxSetupLog); err != nil {
		return out, api.Errorf(api.CodeInternal, "read the log of the setup: %w", err)
	}
	return out, nil
}

// fileEnd returns the last bytes of a file as valid UTF-8.
func fileEnd(path string, most int64) (text string, cut bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", false, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return "", false, err
	}
	from := max(0, fi.Size()-most)
	b := make([]byte, fi.Size()-from)
	n, err := f.ReadAt(b, from)
	if n < len(b) {
		return "", false, fmt.Errorf("read %s: %w", path, err)
	}
	return strings.ToValidUTF8(string(b), "?"), from > 0, nil
}
