package agent

import (
	"context"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git"
	"polis/daemon/history/task"
	"polis/daemon/shim/dial"
)

const (
	// commitTime bounds a commit in an agent's worktree, including hooks.
	commitTime = time.Minute
	// maxSubject and maxBody bound a message that is made from a task, in characters.
	maxSubject = 72
	maxBody    = 2000
)

// Commit commits the agent's uncommitted work, in its sandbox and as its user. It starts a stopped
// agent for that.
func (m *Manager) Commit(ctx context.Context, name string, req api.CommitRequest) (api.CommitResponse, error) {
	if len(req.Message) > maxMessage || strings.ContainsRune(req.Message, 0) {
		return api.CommitResponse{}, api.Errorf(api.CodeBadRequest, "message has %d bytes: at most %d, no NUL", len(req.Message), maxMessage)
	}
	a, err := m.findAny(ctx, name, "commit")
	if err != nil {
		return api.CommitResponse{}, err
	}
	defer a.op.Unlock()
	if err := a.WS.NeedsGit("there is nothing to commit to"); err != nil {
		return api.CommitResponse{}, err
	}
	if err := a.changes("commit"); err != nil {
		return api.CommitResponse{}, err
	}
	if err := m.ensureUp(ctx, a, false); err != nil {
		return api.CommitResponse{}, err
	}
	words := []string{"-m", req.Message}
	if strings.TrimSpace(req.Message) == "" {
		words = []string{"-m", "work of agent " + name}
		if own, err := m.records(a).List(1, func(t api.Task) bool { return t.Via == "" && t.State != api.TaskQueued }); err == nil && len(own) == 1 {
			words = commitWords(own[0])
		}
	}
	resp, err := m.commitAll(ctx, a, words)
	if err == nil && resp.Commit != "" {
		m.recount(a)
	}
	return resp, err
}

// commitWords returns git's arguments with the message of a task's commit.
func commitWords(t api.Task) []string {
	cut := func(s string, most int) string {
		if r := []rune(s); len(r) > most {
			return string(r[:most-3]) + "..."
		}
		return s
	}
	subject, body, _ := strings.Cut(strings.TrimSpace(t.Prompt), "\n")
	if r := []rune(subject); len(r) > maxSubject {
		body = t.Prompt
	}
	words := []string{"-m", cut(subject, maxSubject)}
	if body = strings.TrimSpace(body); body != "" {
		words = append(words, "-m", cut(body, maxBody))
	}
	return append(words, "-m", "Polis-Task: "+t.ID)
}

// commitAll commits everything that git does not ignore. It refuses files in conflict.
func (m *Manager) commitAll(ctx context.Context, a *Agent, words []string) (api.CommitResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, commitTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	resp := api.CommitResponse{Agent: a.Name(), Branch: a.Copy().Branch}
	run := func(args ...string) (dial.Result, error) {
		res, err := sh.Run(ctx, wire.ExecRequest{Command: append([]string{"git"}, args...), Env: []string{"LC_ALL=C", "GIT_EDITOR=true"}})
		if err == nil && res.Code != 0 {
			err = api.Errorf(api.CodeBadState, "git %s in the worktree of agent %s: %s", args[0], a.Name(), api.Shorten(strings.TrimSpace(res.Stderr+res.Stdout), 500)).
				WithHint("polisctl agents exec %s -- git status", a.Name())
		}
		return res, err
	}
	left, err := run("diff", "--name-only", "--diff-filter=U", "-z")
	if err != nil {
		return resp, err
	}
	if paths := git.SplitNUL([]byte(left.Stdout)); len(paths) > 0 {
		return resp, api.Errorf(api.CodeMergeConflict, "agent %s has %s in conflict", a.Name(), api.Count(len(paths), "file")).With("paths", paths).
			WithHint("have the agent resolve it: polisctl run %s \"resolve the merge conflict and commit\"", a.Name())
	}
	if a.Copy().Sparse != nil {
		// "add -A" leaves out changes outside of the cone, or fails for new files there. Files that are missing there are
		// not checked out, and no removal.
		if _, err := run("add", "--sparse", "--ignore-removal", "--", ":/"); err != nil {
			return resp, err
		}
	}
	if _, err := run("add", "-A"); err != nil {
		return resp, err
	}
	staged, err := run("diff", "--cached", "--name-only", "-z")
	if err != nil {
		return resp, err
	}
	if resp.Files = len(git.SplitNUL([]byte(staged.Stdout))); resp.Files == 0 {
		return resp, nil
	}
	if _, err := run(append([]string{"commit", "-q", "--cleanup=whitespace"}, words...)...); err != nil {
		return resp, err
	}
	head, err := run("rev-parse", "HEAD")
	resp.Commit = strings.TrimSpace(head.Stdout)
	return resp, err
}

// autoCommit commits what a task that ended well has left. A failure is recorded in
// the record; the work stays in the worktree.
func (m *Manager) autoCommit(a *Agent, t api.Task) {
	_, err := m.commitAll(context.WithoutCancel(m.ctx), a, commitWords(t))
	if err == nil {
		return
	}
	m.Log.Warn("work of a task not committed", "agent", a.Name(), "err", err)
	m.changeTask(a, t.ID, func(t *api.Task) {
		if t.Message == "" {
			t.Message = api.Shorten("not committed: "+api.AsError(err).Message, 500)
		}
	})
}

// recount brings the record of the last task in line with what was committed since.
func (m *Manager) recount(a *Agent) {
	last, err := m.records(a).List(1, func(t api.Task) bool { return t.Via == "" && t.State != api.TaskQueued })
	if err != nil || len(last) == 0 || last[0].State != api.TaskEnded || last[0].Outcome != api.OutcomeUncommitted {
		return
	}
	w, _ := m.measure(a, last[0]) //nolint:errcheck // it is logged, and what is not known is zero
	m.changeTask(a, last[0].ID, func(t *api.Task) {
		t.Code = ""
		task.Measure(t, w)
	})
}
