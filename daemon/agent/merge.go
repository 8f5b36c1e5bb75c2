package agent

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"polis/daemon/api"
)

// UserPriority is the priority of a merge that a user waits for. It is higher than that of tasks.
const UserPriority = 100

const maxMessage = 64 << 10

// headRE matches the id of a commit.
var headRE = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Merge puts the agent's branch in the merge queue, before those of tasks, and waits for the
// outcome. A dry run returns what a merge would do.
func (m *Manager) Merge(ctx context.Context, name string, req api.MergeRequest) (api.MergeResponse, error) {
	a, err := m.mergeable(name, req.Message)
	if err != nil {
		return api.MergeResponse{}, err
	}
	if req.Head != "" && !headRE.MatchString(req.Head) {
		return api.MergeResponse{}, api.Errorf(api.CodeBadRequest, "head = %q: must be the full id of a commit, as merge --dry-run prints it", api.Shorten(req.Head, 80))
	}
	m.mu.Lock()
	resp := api.MergeResponse{Agent: name, Branch: a.Kept.Branch, Target: a.WS.Target, DryRun: req.DryRun, MergeStatus: a.Kept.MergeStatus}
	m.mu.Unlock()
	if req.DryRun {
		p, err := a.WS.Repo.DryMerge(ctx, a)
		if err != nil {
			return api.MergeResponse{}, err
		}
		resp.Paths, resp.Protected, resp.Head, resp.Branch, resp.Elsewhere = p.Paths, p.Protected, p.Head, cmp.Or(p.Branch, resp.Branch), p.Elsewhere
		return resp, nil
	}
	if req.Sign {
		s, err := a.WS.Repo.ToSign(ctx, a, req)
		resp.ToSign, resp.Head = &s, s.Merged
		return resp, err
	}
	entry := m.mergeEntry(name, req)
	if len(req.Signed) > 0 {
		if entry.Signed, err = a.WS.Repo.StoreSigned(ctx, a, req.Signed); err != nil {
			return api.MergeResponse{}, err
		}
	}
	wait, err := a.WS.Queue.Submit(entry)
	if err != nil {
		return api.MergeResponse{}, err
	}
	out, err := wait(ctx)
	if err != nil {
		return api.MergeResponse{}, err
	}
	resp.MergeCommitSHA, resp.MergeStatus, resp.Paths, resp.Project, resp.Note, resp.Log = out.MergeCommitSHA, out.MergeStatus, out.Paths, out.Project, out.Note, out.Log
	resp.Branch, resp.Elsewhere = cmp.Or(out.Branch, resp.Branch), out.Elsewhere
	if err := m.removal(ctx, name, &resp); err != nil {
		return resp, err
	}
	return resp, nil
}

// mergeEntry is the entry of a merge that a user waits for.
func (m *Manager) mergeEntry(name string, req api.MergeRequest) api.QueueEntry {
	return api.QueueEntry{Agent: name, Priority: UserPriority, Message: req.Message, By: "user", NoCheck: req.NoCheck, AcceptProtected: req.AcceptProtected, RemoveAfter: req.RemoveAfter, Head: req.Head, AddedAt: m.Now().UTC()}
}

// Enqueue puts the agent's branch in the merge queue and does not wait.
func (m *Manager) Enqueue(name string, req api.QueueRequest) (api.QueueEntry, error) {
	a, err := m.mergeable(name, req.Message)
	if err != nil {
		return api.QueueEntry{}, err
	}
	return a.WS.Queue.Add(api.QueueEntry{Agent: name, Priority: req.Priority, Message: req.Message, By: "user", NoCheck: req.NoCheck, AcceptProtected: req.AcceptProtected, RemoveAfter: req.RemoveAfter, AddedAt: m.Now().UTC()})
}

// mergeable returns an agent that has a branch.
func (m *Manager) mergeable(name, message string) (*Agent, error) {
	if len(message) > maxMessage || strings.ContainsRune(message, 0) {
		return nil, api.Errorf(api.CodeBadRequest, "message has %d bytes: at most %d, no NUL", len(message), maxMessage)
	}
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	if err := a.WS.NeedsGit("there is nothing to merge"); err != nil {
		return nil, err
	}
	return a, a.changes("be merged")
}

// Branch is what the queue needs to merge an agent's branch.
type Branch struct {
	Name string
	// Owned are the refs that the agent made.
	Owned []string
	// Merged is the recorded merge commit; may be empty.
	Merged string
	Policy api.Policy
	// Exclusive contains the exclusive paths of the workspace's other agents, by name.
	Exclusive map[string][]string
	// ApprovedWrites are the paths that the agent has written, or may write, after a person's approval.
	ApprovedWrites []string
}

// Prepared returns what the queue needs to merge an agent's branch.
func (m *Manager) Prepared(name string) (Branch, error) {
	a, err := m.lookup(name)
	if err != nil {
		return Branch{}, err
	}
	remembered := a.Remembered()
	m.mu.Lock()
	defer m.mu.Unlock()
	b := Branch{Name: a.Kept.Branch, Owned: slices.Clone(a.Kept.OwnedRefs), Merged: a.Kept.MergeCommitSHA, Policy: a.Kept.Rules(), ApprovedWrites: slices.Clone(a.Kept.ApprovedWrites)}
	for _, r := range remembered {
		if r.Kind == api.ApprovalWrite && r.Verdict == api.VerdictApprove {
			b.ApprovedWrites = append(b.ApprovedWrites, r.What)
		}
	}
	for other, o := range m.agents {
		if o == a || o.WS.Name != a.WS.Name || len(o.Kept.Policy.Exclusive) == 0 {
			continue
		}
		if b.Exclusive == nil {
			b.Exclusive = map[string][]string{}
		}
		b.Exclusive[other] = o.Kept.Policy.Exclusive
	}
	return b, nil
}

// Landed records the outcome of an entry of the merge queue. It returns an error if it could not
// save the outcome; the caller then calls it again.
func (m *Manager) Landed(ctx context.Context, e api.QueueEntry, out api.QueueOutcome, failed error) (api.QueueOutcome, error) {
	if failed != nil {
		out.Code, out.Message = api.CodeOf(failed), failed.Error()
	}
	a, err := m.lookup(e.Agent)
	if err != nil {
		return out, nil //nolint:nilerr // the agent was removed: there is nothing to record
	}
	if !e.AddedAt.IsZero() && a.Copy().CreatedAt.After(e.AddedAt) {
		return out, nil // as above; another agent has got its name
	}
	// The tasks come before the state: after the state is saved, the merge is not found again.
	m.landTasks(a, e, out, failed == nil)
	idle := out.Code == api.CodeNothingToMerge && len(out.Elsewhere) == 0 && (e.By != "task" || !m.dirty(ctx, a))
	m.mu.Lock()
	switch {
	case failed == nil:
		a.Kept.MergeStatus, a.Kept.MergeCommitSHA, a.Kept.RevertCommitSHA = api.MergeMerged, out.MergeCommitSHA, ""
	case !idle:
		a.Kept.MergeStatus = api.MergePending
	}
	out.MergeStatus = a.Kept.MergeStatus
	branch := cmp.Or(out.Branch, a.Kept.Branch)
	remove := failed == nil && (e.RemoveAfter || m.cfgLive.RemoveAfter(a.WS.Name, a.Kept.Role, a.Kept.RemoveAfter))
	delete(m.removing, e.Agent)
	m.mu.Unlock()
	if err := m.save(a.WS); err != nil {
		return out, err
	}
	data := map[string]any{"target": a.WS.Target, "branch": branch, "log": out.Log, "tasks": e.Tasks}
	switch {
	case failed == nil:
		m.Locks.ReleaseMerge(e.Agent)
		m.releaseIdle(ctx, a)
		data["merge_commit_sha"], data["project"] = out.MergeCommitSHA, out.Project
		if len(e.Tasks) > 0 {
			data["tasks"] = e.Tasks[:min(len(e.Tasks), maxHome)]
		}
		m.Events.Publish(api.Event{Type: api.EventAgentMerged, Agent: e.Agent, Message: fmt.Sprintf("branch %s was merged into %s", branch, a.WS.Target), Data: data})
		if remove {
			m.removeAfter(a)
		}
	case idle:
		m.releaseIdle(ctx, a)
		m.Log.Info("nothing to merge", "agent", e.Agent, "op", "merge")
	default:
		msg := failed.Error()
		if out.Code == api.CodeNothingToMerge && len(out.Elsewhere) > 0 {
			msg = api.BranchesText(out.Elsewhere, "polisctl --json merge --dry-run "+e.Agent)
		} else if out.Code == api.CodeNothingToMerge {
			msg = "the task ended with changes in no commit, and only commits are merged"
		}
		data["paths"] = api.AsError(failed).Details["paths"]
		m.Log.Warn("branch not merged", "agent", e.Agent, "op", "merge", "err", msg)
		m.Events.Publish(api.Event{Type: api.EventAgentMergeFailed, Agent: e.Agent, Code: out.Code, Message: msg, Data: data})
	}
	return out, nil
}

// dirty reports whether the agent has uncommitted work. An error counts as yes.
func (m *Manager) dirty(ctx context.Context, a *Agent) bool {
	st, err := a.WS.Repo.Status(ctx, a)
	return err != nil || st.Dirty > 0
}
