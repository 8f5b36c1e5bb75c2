package agent

import (
	"context"
	"time"

	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/shim/dial"
)

// forwardTime bounds merging the target before a task.
const forwardTime = 2 * time.Minute

// bringForward updates the agent's branch to the target before a task begins, as configured: work
// on an old state conflicts later. A branch that cannot be updated stays as it is, and the task
// begins nevertheless. It returns the commit that the agent is then on; empty if that is not known.
// a.op is held, and the agent runs no command.
func (m *Manager) bringForward(ctx context.Context, a *Agent) (head string) {
	if k := a.Copy(); k.Base != "" || k.ReadOnly {
		return "" // a race begins at one commit, and a read-only agent stays at one
	}
	c := m.config()
	mode := c.OnStart(a.WS.Name, a.Copy().Role)
	if mode == config.OnStartKeep {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	f, err := a.WS.Repo.Forward(ctx, a)
	if err != nil {
		m.Log.Warn("branch not updated to the target before a task", "agent", a.Name(), "err", err)
	}
	if err == nil && f.Inside != "" {
		return m.forwardInside(ctx, sh, a, f)
	}
	if err != nil || f.From != f.To {
		// After an error too: some of the files can have changed.
		if err := sh.Invalidate(ctx); err != nil {
			m.Log.Warn("view not invalidated", "agent", a.Name(), "err", err)
		}
	}
	if err == nil && f.Kept != "" {
		m.Log.Debug("branch kept before a task", "agent", a.Name(), "reason", f.Kept)
		if mode == config.OnStartRebase {
			m.mergeTarget(ctx, sh, a)
			return ""
		}
	}
	if err != nil {
		return ""
	}
	return f.To
}

// renewProject brings what the project has new to an agent that is up, before a task. a.op is held.
func (m *Manager) renewProject(ctx context.Context, a *Agent) {
	ctx, cancel := context.WithTimeout(ctx, forwardTime)
	defer cancel()
	changed, err := a.WS.Repo.Refresh(ctx, a)
	if err != nil {
		m.Log.Warn("what the project has new does not all reach the agent", "agent", a.Name(), "err", err)
	}
	if !changed {
		return
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if err := sh.Invalidate(ctx); err != nil {
		m.Log.Warn("view not invalidated", "agent", a.Name(), "err", err)
	}
}

// removeMade removes the untracked files that the commit $2 has and $1 has not.
const removeMade = `git diff --name-only -z --no-renames --diff-filter=A "$1" "$2" | xargs -0 -r git --literal-pathspecs clean -q -f -d --`

// forwardInside fast-forwards the agent's branch to f.Inside, in its sandbox and by its rules: it takes
// leases, and waits for those of others. Its worktree has no change and no untracked file. If a file
// cannot be changed the worktree is made again what it was. It returns as bringForward does.
func (m *Manager) forwardInside(ctx context.Context, sh Shim, a *Agent, f Forwarded) string {
	run := func(command ...string) (dial.Result, bool) {
		res, err := sh.Run(ctx, wire.ExecRequest{Command: command, Env: []string{"LC_ALL=C"}})
		return res, err == nil && res.Code == 0
	}
	// It fails without a change if a file that git ignores is in the way.
	if _, ok := run("git", "merge", "--ff-only", "--no-overwrite-ignore", "--no-stat", "-q", f.Inside); ok {
		return f.Inside
	}
	m.Log.Info("branch not updated to the target before a task, by git in the agent", "agent", a.Name())
	if res, ok := run("git", "status", "--porcelain"); ok && len(res.Stdout) == 0 {
		return f.From
	}
	// The index is that of before: reset writes only files that differ. The merge has made those that only
	// the target has.
	_, restored := run("git", "reset", "-q", "--hard", f.From)
	_, removed := run("sh", "-c", removeMade, "sh", f.From, f.Inside)
	if !restored || !removed {
		m.Log.Warn("files of an update before a task are left in the worktree", "agent", a.Name(), "commit", f.Inside)
	}
	return f.From
}

// mergeTarget merges the target into the agent's branch, in its sandbox and by its rules. It
// undoes a merge with conflicts.
func (m *Manager) mergeTarget(ctx context.Context, sh Shim, a *Agent) {
	run := func(args ...string) bool {
		res, err := sh.Run(ctx, wire.ExecRequest{Command: append([]string{"git"}, args...), Env: []string{"LC_ALL=C", "GIT_EDITOR=true", "GIT_MERGE_AUTOEDIT=no"}})
		return err == nil && res.Code == 0
	}
	// Only in a clean worktree: the undo must not discard anything else.
	if !run("diff", "--quiet", "HEAD") || run("merge", "--no-edit", "--no-stat", "refs/heads/"+a.WS.Target) {
		return
	}
	m.Log.Info("target not merged before a task", "agent", a.Name())
	run("merge", "--abort")
}
