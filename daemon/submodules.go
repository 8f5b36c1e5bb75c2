package daemon

import (
	"context"
	"errors"

	"polis/daemon/agent"
	"polis/daemon/git/worktree"
)

// fillSubmodules fills the directories of submodules from the project. What cannot be filled stays empty.
func (t worktrees) fillSubmodules(ctx context.Context, w *workspace, a *agent.Agent, p *worktree.Project) {
	var err error
	if a.Filtered == "" {
		err = w.git.FillSubmodules(t.d.charge(ctx, a.Name()), a.Name(), p)
	}
	modules, merr := w.git.BorrowedModules(ctx, a.Name(), p)
	if a.Modules = modules; err != nil || merr != nil {
		t.d.Log.Warn("directories of submodules not filled", "agent", a.Name(), "err", errors.Join(err, merr))
	}
}

// submoduleNotice says what agents of a workspace lack of its submodules.
func (d *Daemon) submoduleNotice(ctx context.Context, w *workspace, agent string) []string {
	if !w.agents.Git {
		return nil
	}
	text, err := w.git.SubmoduleNotice(ctx, agent, agent != "" && d.filteredOf(w, agent) != "")
	if err != nil {
		d.Log.Warn("submodules of the project not read", "workspace", w.agents.Name, "err", err)
	}
	if text == "" {
		return nil
	}
	return []string{text}
}
