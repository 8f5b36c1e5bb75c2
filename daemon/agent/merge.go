package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"polis/daemon/api"
)

// Merge brings the agent's branch to the target branch.
func (m *Manager) Merge(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error) {
	if len(req.Message) > 64<<10 || strings.ContainsRune(req.Message, 0) {
		return api.MergeResponse{}, api.Errorf(api.CodeBadRequest, "message has %d bytes: at most 65536, no NUL", len(req.Message))
	}
	a, err := m.find(ctx, name)
	if err != nil {
		return api.MergeResponse{}, err
	}
	defer a.op.Unlock()
	if !a.WS.Git {
		return api.MergeResponse{}, api.Errorf(api.CodeBadState, "workspace %s is not a git repository: there is nothing to merge", a.WS.Name)
	}
	if !req.DryRun {
		if err := m.writable(a); err != nil {
			return api.MergeResponse{}, err
		}
	}
	res, err := a.WS.Repo.Merge(ctx, a, req.Message, req.DryRun)
	resp := api.MergeResponse{Agent: name, Branch: a.Kept.Branch, Target: a.WS.Target, MergeCommitSHA: res.Commit, DryRun: req.DryRun,
		Paths: res.Paths, Project: res.Project, Note: res.Note, MergeStatus: api.MergeMerged}
	if err != nil {
		if !req.DryRun && api.CodeOf(err) != api.CodeNothingToMerge {
			m.mu.Lock()
			a.Kept.MergeStatus = api.MergePending
			m.mu.Unlock()
			if serr := m.save(a.WS); serr != nil {
				err = errors.Join(err, serr)
			}
			m.Events.Publish(api.Event{Type: api.EventAgentMergeFailed, Agent: name, Code: api.CodeOf(err), Message: err.Error()})
		}
		return api.MergeResponse{}, err
	}
	if req.DryRun {
		resp.MergeStatus = a.Kept.MergeStatus
		return resp, nil
	}
	m.mu.Lock()
	a.Kept.MergeStatus, a.Kept.MergeCommitSHA = api.MergeMerged, res.Commit
	m.mu.Unlock()
	m.Locks.ReleaseMerge(name)
	if err := m.save(a.WS); err != nil {
		return resp, err
	}
	m.Events.Publish(api.Event{Type: api.EventAgentMerged, Agent: name, Message: fmt.Sprintf("branch %s was merged into %s", a.Kept.Branch, a.WS.Target),
		Data: map[string]any{"merge_commit_sha": res.Commit, "target": a.WS.Target}})
	return resp, nil
}
