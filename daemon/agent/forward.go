package agent

import (
	"context"
	"time"

	"polis/daemon/config"
	"polis/daemon/shim/wire"
)

// forwardTime bounds bringing the target in before a task.
const forwardTime = 2 * time.Minute

// bringForward brings the target in before a task begins, as configured: work on old text
// is a conflict later. What cannot be brought forward stays as it is, and the task begins
// all the same. a.op is held, and the agent runs no command.
func (m *Manager) bringForward(ctx context.Context, a *Agent) {
	c := m.config()
	mode := c.OnStart(a.WS.Name, a.Copy().Role)
	if mode == config.OnStartKeep {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	if err := a.WS.Repo.Sync(ctx); err != nil {
		m.Log.Warn("commits of the project not brought in", "agent", a.Name(), "err", err)
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	from, to, kept, err := a.WS.Repo.Forward(ctx, a)
	if err != nil {
		m.Log.Warn("branch not brought forward before a task", "agent", a.Name(), "err", err)
	}
	if err != nil || from != to {
		// Also after an error: part of the files may be there.
		if err := sh.Invalidate(ctx); err != nil {
			m.Log.Warn("view not invalidated", "agent", a.Name(), "err", err)
		}
	}
	if err == nil && kept != "" {
		m.Log.Debug("branch kept before a task", "agent", a.Name(), "reason", kept)
		if mode == config.OnStartRebase {
			m.mergeTarget(ctx, sh, a)
		}
	}
}

// mergeTarget merges the target into the agent's branch, in its sandbox and by its rules;
// what conflicts is taken back.
func (m *Manager) mergeTarget(ctx context.Context, sh Shim, a *Agent) {
	run := func(args ...string) bool {
		res, err := sh.Run(ctx, wire.ExecRequest{Command: append([]string{"git"}, args...), Env: []string{"LC_ALL=C", "GIT_EDITOR=true", "GIT_MERGE_AUTOEDIT=no"}})
		return err == nil && res.Code == 0
	}
	// Only of a clean worktree: a merge that is taken back must not take anything else.
	if !run("diff", "--quiet", "HEAD") || run("merge", "--no-edit", "--no-stat", "refs/heads/"+a.WS.Target) {
		return
	}
	m.Log.Info("target not merged before a task", "agent", a.Name())
	run("merge", "--abort")
}
