package agent

import (
	"context"
	"encoding/json"
	"os/user"
	"slices"
	"strings"
	"sync"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

const (
	// approvalTime bounds a question to a shim for its questions.
	approvalTime = 3 * time.Second
	// approvalDials is how many shims are queried at a time.
	approvalDials = 32
)

// Approvals are the open questions of the agents of a workspace ("" = all), oldest first.
func (m *Manager) Approvals(ctx context.Context, workspace string) ([]api.Approval, error) {
	if workspace != "" {
		w, err := m.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = w.Name
	}
	m.mu.Lock()
	var as []*Agent
	for _, a := range m.agents {
		if a.up && (workspace == "" || a.WS.Name == workspace) {
			as = append(as, a)
		}
	}
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, approvalTime)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out, slots := []api.Approval{}, make(chan struct{}, approvalDials)
	for _, a := range as {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			sh := m.Shims.Dial(a.Name())
			defer sh.Close()
			list, err := sh.Approvals(ctx)
			if err != nil {
				m.Log.Debug("questions not read", "agent", a.Name(), "err", err) // an older shim has none
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, v := range list {
				out = append(out, m.ofAgent(a, v))
			}
		})
	}
	wg.Wait()
	slices.SortStableFunc(out, func(a, b api.Approval) int {
		if c := a.Since.Compare(b.Since); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// ofAgent adds what polisd alone knows of a question's agent.
func (m *Manager) ofAgent(a *Agent, v api.Approval) api.Approval {
	m.mu.Lock()
	defer m.mu.Unlock()
	v.Agent, v.Workspace, v.Role = a.Name(), a.WS.Name, a.Kept.Role
	return v
}

// asker is the agent of a question.
func (m *Manager) asker(id string) (*Agent, error) {
	name, rest, ok := strings.Cut(id, ".")
	if !ok || rest == "" || api.CheckName(name) != nil || len(rest) > 64 {
		return nil, api.Errorf(api.CodeNotFound, "there is no question %q", api.Shorten(id, 64)).WithHint("polisctl approvals list")
	}
	if _, err := m.lookup(name); err != nil {
		return nil, api.Errorf(api.CodeNotFound, "there is no question %s: %w", id, err).WithHint("polisctl approvals list")
	}
	return m.upShim(name)
}

// Approval is one question, open or closed not long ago.
func (m *Manager) Approval(ctx context.Context, id string) (api.Approval, error) {
	a, err := m.asker(id)
	if err != nil {
		return api.Approval{}, err
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	v, err := sh.Approval(ctx, id)
	if err != nil {
		return v, err
	}
	return m.ofAgent(a, v), nil
}

// AnswerApproval gives an answer to the agent's shim and returns when that has taken it. An answer for
// the agent or its role is kept then.
func (m *Manager) AnswerApproval(ctx context.Context, by, id string, req api.AnswerRequest) (api.Approval, error) {
	a, err := m.asker(id)
	if err != nil {
		return api.Approval{}, err
	}
	if req.Scope == api.ScopeAgent || req.Scope == api.ScopeRole {
		if err := m.roomForAnswer(a.WS); err != nil {
			return api.Approval{}, err
		}
	}
	m.mu.Lock()
	role := a.Kept.Role
	m.mu.Unlock()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	switch {
	case err != nil:
		return api.Approval{}, err
	case req.Raise != 0 && st.Version < wire.RaiseVersion:
		return api.Approval{}, api.Errorf(api.CodeBadState, "agent %s was started by an older polis, whose answers have no amount: answer without one", a.Name())
	}
	answer := wire.AnswerRequest{AnswerRequest: req, By: by, Role: role}
	if st.Version >= wire.AnswerNameVersion {
		answer.Name = userName(by)
	}
	res, err := sh.Answer(ctx, id, answer)
	if err != nil {
		return api.Approval{}, err
	}
	m.crash("approval:answered")
	m.noteWrite(a, res.Approval)
	if res.Rule != nil {
		if err := m.keepAnswer(a, *res.Rule); err != nil {
			return res.Approval, err
		}
	}
	return m.ofAgent(a, res.Approval), nil
}

// userName is the name of the user of a caller ("user:1000"); "" if it is not known.
func userName(by string) string {
	uid, ok := strings.CutPrefix(by, "user:")
	if !ok {
		return ""
	}
	u, err := user.LookupId(uid)
	if err != nil {
		return ""
	}
	return api.Shorten(u.Username, 64)
}

// answered acts on an answer that a shim reports, which is how one that polisd died over is
// kept all the same. It is reported at least once.
func (m *Manager) answered(a *Agent, e api.Event) {
	var res wire.Answered
	b, err := json.Marshal(e.Data["answered"])
	if err == nil {
		err = json.Unmarshal(b, &res)
	}
	if err != nil {
		m.Log.Error("answer of a question not read", "agent", a.Name(), "err", err)
		return
	}
	m.noteWrite(a, res.Approval)
	if res.Rule != nil {
		if err := m.keepAnswer(a, *res.Rule); err != nil {
			m.Log.Error("answer not kept", "agent", a.Name(), "id", res.Approval.ID, "err", err)
		}
	}
	if t := res.Approval.Task; t != "" && res.Approval.Answer != nil && res.Approval.Answer.Verdict == api.VerdictAbort {
		m.wg.Go(func() { m.abort(t) })
	}
}

// maxApprovedWrites bounds the paths that are kept for one agent.
const maxApprovedWrites = 1000

// noteWrite keeps the paths of an approved write: what was approved at the system call is not asked about at the
// merge.
func (m *Manager) noteWrite(a *Agent, v api.Approval) {
	if v.Kind != api.ApprovalWrite || v.Answer == nil || v.Answer.Verdict != api.VerdictApprove {
		return
	}
	m.mu.Lock()
	all := a.Kept.ApprovedWrites
	for path := range strings.SplitSeq(v.What, "\x00") {
		if path != "" && !slices.Contains(all, path) {
			all = append(slices.Clone(all), path)
		}
	}
	more := len(all) != len(a.Kept.ApprovedWrites)
	a.Kept.ApprovedWrites = all[max(0, len(all)-maxApprovedWrites):]
	m.mu.Unlock()
	if !more {
		return
	}
	if err := m.save(a.WS); err != nil {
		m.Log.Error("approved write not kept; the merge asks again", "agent", a.Name(), "id", v.ID, "err", err)
	}
}

// abort ends the task of a question that was answered so. A task that has ended stays as it is.
func (m *Manager) abort(id string) {
	if _, err := m.CancelTask(m.ctx, id); err != nil && api.CodeOf(err) != api.CodeBadState {
		m.Log.Error("task not ended", "task", id, "err", err)
	}
}
