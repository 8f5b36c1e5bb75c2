package daemon

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"

	"polis/daemon/api"
	"polis/daemon/merge/check"
	"polis/daemon/merge/queue"
	"polis/daemon/store/layout"
)

// checkTail returns the last lines of the log of a check, for those who did not request it.
func checkTail(root layout.Workspace, uid int, log string) (string, error) {
	text, _, _, err := check.Output(root, uint32(uid), log, api.CheckTailLines, api.CheckTailBytes)
	return text, err
}

// checksOf returns the workspace of a request about the checks of an agent, and the checks. The agent can be gone.
func (b *backend) checksOf(ctx context.Context, req api.CheckLogRequest) (*workspace, []api.MergeSignal, error) {
	if err := api.CheckName(req.Agent); err != nil {
		return nil, nil, err
	}
	there, with := "", []string{}
	if a, err := b.Get(ctx, req.Agent); err == nil {
		there = a.Workspace
	}
	for _, w := range b.sorted("") {
		if len(w.flow.Checks(req.Agent)) > 0 {
			with = append(with, w.agents.Name)
		}
	}
	name, err := queue.CheckPlace(req, there, with)
	if err != nil {
		return nil, nil, err
	}
	ws, err := b.Workspace(name)
	if err != nil {
		return nil, nil, err
	}
	for _, w := range b.sorted(ws.Name) {
		return w, w.flow.Checks(req.Agent), nil
	}
	return nil, nil, api.Errorf(api.CodeWorkspaceNotFound, "workspace %s is gone", ws.Name)
}

// CheckLog returns one check of an agent's branch, and the end of its output.
func (b *backend) CheckLog(ctx context.Context, req api.CheckLogRequest) (api.CheckLog, error) {
	w, checks, err := b.checksOf(ctx, req)
	if err != nil {
		return api.CheckLog{}, err
	}
	s, n, err := queue.SelectCheck(checks, req)
	if err != nil {
		return api.CheckLog{}, err
	}
	out := api.CheckLog{Workspace: w.agents.Name, Agent: s.Agent, Check: n, Checks: len(checks), ID: s.ID, At: s.Ended, Code: s.Code, Message: s.Message, Command: s.Check, Log: s.Log}
	out.Text, out.Bytes, out.Truncated, err = check.Output(w.root, uint32(w.agents.UID), s.Log, req.Lines, api.MaxCheckText)
	return out, notKept(err, s)
}

// CheckOutput opens the whole output of a check of an agent's branch, and returns its size.
func (b *backend) CheckOutput(ctx context.Context, req api.CheckLogRequest) (io.ReadCloser, int64, error) {
	w, checks, err := b.checksOf(ctx, req)
	if err != nil {
		return nil, 0, err
	}
	s, _, err := queue.SelectCheck(checks, req)
	if err != nil {
		return nil, 0, err
	}
	f, err := check.OpenLog(w.root, uint32(w.agents.UID), s.Log)
	if err != nil {
		return nil, 0, notKept(err, s)
	}
	fi, err := f.Stat()
	if err != nil {
		return nil, 0, errors.Join(notKept(err, s), f.Close())
	}
	return f, fi.Size(), nil
}

// notKept is the error for a log that cannot be read.
func notKept(err error, s api.MergeSignal) error {
	if errors.Is(err, fs.ErrNotExist) {
		return api.Errorf(api.CodeNotFound, "the output of the check of request %s is not kept any more: a workspace keeps that of its last %d checks", s.ID, check.MaxLogs).
			WithHint("polisctl queue shows the last results")
	}
	if err != nil {
		return api.Errorf(api.CodeInternal, "read the output of the check of request %s: %w", s.ID, err)
	}
	return nil
}

// addCheck adds the end of the output of its check to a task whose check failed, also to one of an agent that was removed.
func (b *backend) addCheck(t *api.Task) {
	if t.Code != api.CodeCheckFailed {
		return
	}
	for _, w := range b.sorted("") {
		n := 1 + slices.IndexFunc(w.flow.Checks(t.Agent), func(s api.MergeSignal) bool { return s.Log == t.Log })
		if n == 0 {
			continue
		}
		text, err := checkTail(w.root, w.agents.UID, t.Log)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			b.Daemon.Log.Warn("output of a check not read", "agent", t.Agent, "task", t.ID, "err", err)
		}
		t.CheckOutput, t.Check = text, n
	}
}
