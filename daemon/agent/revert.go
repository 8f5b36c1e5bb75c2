package agent

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git"
	"polis/daemon/shim/dial"
)

// rebaseTime bounds a merge in an agent's worktree.
const rebaseTime = 5 * time.Minute

// settleTime bounds the wait for a merge that is half done. Other merges of its batch can still be checked.
const settleTime = 30 * time.Second

// Revert reverts the agent's last merge by a commit on the target. Later merges stay, and are
// counted. A second call changes nothing. A merge whose commit is on the target already is waited for:
// who sees the commit can revert it.
func (m *Manager) Revert(ctx context.Context, name string, req api.RevertRequest) (api.RevertResponse, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.RevertResponse{}, err
	}
	if err := a.WS.NeedsGit("there is no merge to revert"); err != nil {
		return api.RevertResponse{}, err
	}
	if err := m.settled(ctx, a); err != nil {
		return api.RevertResponse{}, err
	}
	a, err = m.find(ctx, name)
	if err != nil {
		return api.RevertResponse{}, err
	}
	defer a.op.Unlock()
	if err := a.WS.NeedsGit("there is no merge to revert"); err != nil {
		return api.RevertResponse{}, err
	}
	if err := a.changes("be merged"); err != nil {
		return api.RevertResponse{}, err
	}
	m.mu.Lock()
	k := a.Kept
	m.mu.Unlock()
	if k.MergeCommitSHA == "" {
		return api.RevertResponse{}, api.Errorf(api.CodeBadState, "nothing of agent %s was merged: there is nothing to revert", name).
			WithHint("polisctl merge %s merges it, polisctl discard %s removes it", name, name)
	}
	resp := api.RevertResponse{Agent: name, Target: a.WS.Target, MergeCommitSHA: k.MergeCommitSHA, RevertCommitSHA: k.RevertCommitSHA,
		MergeStatus: k.MergeStatus, DryRun: req.DryRun}
	if k.MergeStatus == api.MergeReverted {
		resp.Already = true
		return resp, nil
	}
	if !req.DryRun {
		if err := m.writable(a); err != nil {
			return api.RevertResponse{}, err
		}
	}
	res, err := a.WS.Repo.Revert(ctx, a, k.MergeCommitSHA, req.DryRun)
	resp.Later, resp.Paths, resp.RevertCommitSHA, resp.Project, resp.Note = res.Later, res.Paths, res.Commit, res.Project, res.Note
	if res.Later > 0 {
		resp.Warning = fmt.Sprintf("%d merges were made after this one; they stay, and may build on what is reverted", res.Later)
	}
	// It was reverted by hand, or by a daemon that died before it recorded it.
	resp.Already = api.CodeOf(err) == api.CodeNothingToMerge && err != nil
	if err != nil && !resp.Already {
		return api.RevertResponse{}, err
	}
	if req.DryRun {
		return resp, nil
	}
	m.mu.Lock()
	a.Kept.MergeStatus, a.Kept.RevertCommitSHA = api.MergeReverted, res.Commit
	m.mu.Unlock()
	resp.MergeStatus = api.MergeReverted
	if err := m.save(a.WS); err != nil {
		return resp, err
	}
	if !resp.Already {
		m.Events.Publish(api.Event{Type: api.EventAgentReverted, Agent: name, Message: fmt.Sprintf("the merge of agent %s into %s was reverted", name, a.WS.Target),
			Data: map[string]any{"merge_commit_sha": k.MergeCommitSHA, "revert_commit_sha": res.Commit, "target": a.WS.Target, "later": res.Later}})
	}
	return resp, nil
}

// settled waits, at most settleTime, until what is on the target of the agent's merges is recorded.
func (m *Manager) settled(ctx context.Context, a *Agent) error {
	if a.WS.Queue == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	return a.WS.Queue.Settled(ctx, a.Name())
}

// Rebase merges the target into the agent's branch, in its worktree and inside its sandbox. A
// conflict stays there to be resolved: MERGE_CONFLICT with the paths. The commits of the branch do
// not change.
func (m *Manager) Rebase(ctx context.Context, name string) (api.RebaseResponse, error) {
	a, err := m.find(ctx, name)
	if err != nil {
		return api.RebaseResponse{}, err
	}
	defer a.op.Unlock()
	if err := a.WS.NeedsGit("there is no branch to merge"); err != nil {
		return api.RebaseResponse{}, err
	}
	if err := a.changes("merge the target"); err != nil {
		return api.RebaseResponse{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, rebaseTime)
	defer cancel()
	if err := m.ensureUp(ctx, a, false); err != nil {
		return api.RebaseResponse{}, err
	}
	if err := a.WS.Repo.Sync(ctx); err != nil {
		return api.RebaseResponse{}, err
	}
	m.beforeRebase(ctx, a)
	sh := m.Shims.Dial(name)
	defer sh.Close()
	run := func(args ...string) (dial.Result, error) {
		return sh.Run(ctx, wire.ExecRequest{Command: append([]string{"git"}, args...), Env: []string{"LC_ALL=C", "GIT_EDITOR=true", "GIT_MERGE_AUTOEDIT=no"}})
	}
	resp := api.RebaseResponse{Agent: name, Branch: a.Kept.Branch, Target: a.WS.Target}
	done, err := run("merge", "--no-edit", "--no-stat", "refs/heads/"+a.WS.Target)
	if err != nil {
		return resp, err
	}
	resp.Output = strings.TrimSpace(done.Stdout + done.Stderr)
	if head, err := run("rev-parse", "HEAD"); err == nil && head.Code == 0 {
		resp.Head = strings.TrimSpace(head.Stdout)
	}
	if done.Code == 0 {
		return resp, nil
	}
	left, err := run("diff", "--name-only", "--diff-filter=U", "-z")
	if err != nil {
		return resp, err
	}
	if resp.Conflicts = git.SplitNUL([]byte(left.Stdout)); len(resp.Conflicts) > 0 {
		return resp, api.Errorf(api.CodeMergeConflict, "%s is in the worktree of agent %s, with %s in conflict", a.WS.Target, name, api.Count(len(resp.Conflicts), "file")).
			WithHint("have the agent resolve and commit: polisctl agents run %s \"resolve the merge conflict and commit\"; then polisctl merge %s", name, name).
			With("paths", resp.Conflicts).With("output", resp.Output)
	}
	return resp, api.Errorf(api.CodeBadState, "git could not merge %s in the worktree of agent %s: %s", a.WS.Target, name, api.Shorten(resp.Output, 500)).
		WithHint("polisctl agents exec %s -- git status", name)
}

// Diff writes what the agent changed since its branch left the target.
func (m *Manager) Diff(ctx context.Context, name string, opt api.DiffRequest, to io.Writer) error {
	a, err := m.lookup(name)
	if err != nil {
		return err
	}
	if err := a.WS.NeedsGit("there is nothing to compare"); err != nil {
		return err
	}
	if err := a.changes("be compared with the target"); err != nil {
		return err
	}
	return a.WS.Repo.Diff(ctx, a, opt, to)
}
