package agent

import (
	"encoding/json"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Bounds of the answers that are kept for a workspace: shims get them with every change of
// settings. One answer has less than answerBytes in JSON.
const (
	maxAnswers     = 500
	maxAnswerBytes = 256 << 10
	answerBytes    = 16 << 10
)

// AnswerSaver writes the answers that are kept for a workspace.
type AnswerSaver interface {
	SaveAnswers(workspace string, kept store.Answers) error
}

// Remembered are the kept answers that hold for the agent.
func (a *Agent) Remembered() []api.ApprovalRule {
	if a.WS.mu != nil {
		a.WS.mu.Lock()
		defer a.WS.mu.Unlock()
	}
	var out []api.ApprovalRule
	for _, r := range a.WS.Answers.Rules {
		if r.Agent == a.Kept.Name || r.Role != "" && r.Role == a.Kept.Role {
			out = append(out, r)
		}
	}
	return out
}

// ApprovalRules are the kept answers of a workspace ("" = all), oldest first.
func (m *Manager) ApprovalRules(workspace string) ([]api.ApprovalRule, error) {
	if workspace != "" {
		w, err := m.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = w.Name
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	out := []api.ApprovalRule{}
	for _, w := range m.workspaces {
		if workspace == "" || w.Name == workspace {
			out = append(out, w.Answers.Rules...)
		}
	}
	slices.SortStableFunc(out, func(a, b api.ApprovalRule) int {
		if c := a.At.Compare(b.At); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

func full(rules []api.ApprovalRule) bool {
	b, err := json.Marshal(rules)
	return err != nil || len(rules) >= maxAnswers || len(b) > maxAnswerBytes-answerBytes
}

func (m *Manager) roomForAnswer(w *Workspace) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if full(w.Answers.Rules) {
		return api.Errorf(api.CodeQuota, "workspace %s keeps %d answers: that is the limit", w.Name, len(w.Answers.Rules)).
			WithHint("polisctl approvals revoke ID revokes one, or answer once")
	}
	return nil
}

// keepAnswer keeps an answer, once, and gives it to the agents that it holds for.
func (m *Manager) keepAnswer(a *Agent, r api.ApprovalRule) error {
	r.Workspace = a.WS.Name
	if r.Role == "" {
		r.Agent = a.Name()
	}
	return m.changeAnswers(a.WS, func(k *store.Answers) bool {
		known := slices.ContainsFunc(k.Rules, func(o api.ApprovalRule) bool { return o.ID == r.ID })
		if known || slices.Contains(k.Revoked, r.ID) || full(k.Rules) {
			return false
		}
		k.Rules = append(k.Rules, r)
		return true
	}, func(o *Agent) bool { return o == a || r.Role != "" && o.Kept.Role == r.Role })
}

// RevokeApproval revokes a kept answer.
func (m *Manager) RevokeApproval(id string) (api.ApprovalRule, error) {
	m.mu.Lock()
	var found *api.ApprovalRule
	var ws *Workspace
	for _, w := range m.workspaces {
		for _, r := range w.Answers.Rules {
			if r.ID == id {
				found, ws = &r, w
			}
		}
	}
	m.mu.Unlock()
	if found == nil {
		return api.ApprovalRule{}, api.Errorf(api.CodeNotFound, "there is no remembered answer %q", api.Shorten(id, 64)).WithHint("polisctl approvals rules")
	}
	return *found, m.changeAnswers(ws, func(k *store.Answers) bool {
		n := len(k.Rules)
		k.Rules = slices.DeleteFunc(k.Rules, func(r api.ApprovalRule) bool { return r.ID == id })
		if len(k.Revoked) >= maxAnswers {
			k.Revoked = slices.Delete(k.Revoked, 0, 1)
		}
		k.Revoked = append(k.Revoked, id)
		return len(k.Rules) < n
	}, func(o *Agent) bool {
		return o.Kept.Name == found.Agent || found.Role != "" && o.Kept.Role == found.Role
	})
}

// dropAnswers forgets what was answered for an agent that is removed: another one of its name
// begins without.
func (m *Manager) dropAnswers(a *Agent) {
	err := m.changeAnswers(a.WS, func(k *store.Answers) bool {
		n := len(k.Rules)
		k.Rules = slices.DeleteFunc(k.Rules, func(r api.ApprovalRule) bool { return r.Agent == a.Name() })
		return len(k.Rules) < n
	}, func(*Agent) bool { return false })
	if err != nil {
		m.Log.Error("answers for a removed agent not forgotten", "agent", a.Name(), "err", err)
	}
}

// changeAnswers makes a new version of the answers of a workspace: saved first, then in force for
// the agents concerned.
func (m *Manager) changeAnswers(w *Workspace, change func(*store.Answers) bool, concerned func(*Agent) bool) error {
	w.answering.Lock()
	defer w.answering.Unlock()
	m.mu.Lock()
	now := w.Answers
	now.Rules, now.Revoked = slices.Clone(now.Rules), slices.Clone(now.Revoked)
	m.mu.Unlock()
	if !change(&now) {
		return nil
	}
	now.Version++
	if m.Answers != nil {
		if err := m.Answers.SaveAnswers(w.Name, now); err != nil {
			return notSaved(err, w, "keep the answers", "an answer that was given holds once")
		}
	}
	m.mu.Lock()
	w.Answers = now
	var as []*Agent
	for _, a := range m.agents {
		if a.WS == w && a.up && concerned(a) {
			as = append(as, a)
		}
	}
	m.mu.Unlock()
	for _, a := range as {
		m.refresh(a)
	}
	return nil
}
