package daemon

import (
	"context"
	"fmt"
	"os"

	"polis/daemon/api"
	"polis/daemon/merge"
	"polis/daemon/workspace/projectcheck"
)

// ProjectChecks describes the project of a workspace: what of it works with agents.
func (d *Daemon) ProjectChecks(ctx context.Context, workspace string) (api.ProjectReport, error) {
	list := d.sorted(workspace)
	if workspace == "" || len(list) == 0 {
		return api.ProjectReport{}, api.Errorf(api.CodeWorkspaceNotFound, "there is no workspace %q", api.Shorten(workspace, 64)).WithHint("polisctl status lists them")
	}
	w, c := list[0], d.live()
	p := projectcheck.Project{Path: w.agents.Project, Mounts: c.Sandbox.ExtraMounts, Reload: reloadCommand()}
	p.Links, p.LinksErr = d.agents.Links(w.agents, c.Sandbox)
	if w.agents.Git {
		if err := w.checkGit(ctx, &p); err != nil {
			return api.ProjectReport{}, err
		}
	}
	return api.ProjectReport{Checks: p.Findings(ctx)}, nil
}

// checkGit collects what is known about the repository of a project.
func (w *workspace) checkGit(ctx context.Context, p *projectcheck.Project) (err error) {
	if p.Git, err = w.git.Project(ctx); err != nil || p.Git == nil {
		return err
	}
	p.Home, p.Target, p.MustSign = homeOf(p.Git.Owner.UID), w.target(), w.mustSign()
	p.Hooks, p.Settings, p.HooksErr = w.hooks(ctx, p.Git)
	p.Begun, p.End, p.BegunErr = merge.InProgress(ctx, p.Git, w.target())
	p.LFS, p.LFSErr = w.git.LFSObjects(ctx, p.Git)
	p.Submodules, p.SubmodulesErr = w.git.SubmoduleNotice(ctx, "", false)
	w.keptMu.Lock()
	p.Kept = w.kept
	w.keptMu.Unlock()
	return nil
}

// reloadCommand is the command that has this polisd read its configuration again.
func reloadCommand() string {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return "sudo systemctl reload polisd"
	}
	return fmt.Sprintf("sudo kill -HUP %d", os.Getpid())
}
