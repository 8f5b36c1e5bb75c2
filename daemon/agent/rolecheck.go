package agent

import (
	"fmt"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/rules/approval"
	"polis/fusefs/policy"
)

// judged is what decides about a request: of a role, or of one of its agents.
type judged struct {
	set        *policy.Set
	tools      approval.ToolSet
	names      approval.Names
	remembered []api.ApprovalRule
	roots      []string
}

// CheckRole returns what would be decided about a request. It asks nobody, and does not know who
// holds a lease at that time.
func (m *Manager) CheckRole(req api.RoleCheck) (api.RoleDecision, error) {
	d := api.RoleDecision{Role: req.Role, Agent: req.Agent, Workspace: req.Workspace, Kind: api.ApprovalTool}
	j, err := m.judge(&d, req)
	if err != nil {
		return d, err
	}
	if req.Path != "" {
		return j.path(d, req)
	}
	return j.tool(d, req)
}

// judge collects what decides.
func (m *Manager) judge(d *api.RoleDecision, req api.RoleCheck) (judged, error) {
	var j judged
	c := m.config()
	role, ok := c.Roles[req.Role]
	if !ok {
		return j, noRole(req.Role)
	}
	rules, base := role.Policy, req.BaseType
	if req.Agent != "" {
		a, err := m.lookup(req.Agent)
		if err != nil {
			return j, err
		}
		k := a.Copy()
		if k.Role != req.Role {
			return j, api.Errorf(api.CodeBadRequest, "agent %s has role %q, not %q", req.Agent, k.Role, req.Role).WithHint("leave --agent out, or name one of the role: polisctl roles show %s", req.Role)
		}
		rules, base, d.Workspace = k.Policy, k.BaseType, a.WS.Name
		j.remembered, j.roots = a.Remembered(), []string{a.WS.Project, a.Worktree()}
	} else if req.Workspace != "" {
		w, err := m.Workspace(req.Workspace)
		if err != nil {
			return j, err
		}
		m.mu.Lock()
		j.remembered, j.roots = ofRole(w.Answers.Rules, req.Role), []string{w.Project}
		m.mu.Unlock()
	} else {
		m.mu.Lock()
		for _, w := range m.workspaces { // usually there is one
			j.roots = append(j.roots, w.Project)
			j.remembered = append(j.remembered, ofRole(w.Answers.Rules, req.Role)...)
		}
		m.mu.Unlock()
	}
	if base != "" {
		types, err := m.Types()
		if err != nil {
			return j, err
		}
		t, ok := types[base]
		if !ok && req.Agent == "" {
			return j, api.Errorf(api.CodeAgentTypeUnavailable, "there is no base type %q", api.Shorten(base, 64)).WithHint("polisctl agents types lists them")
		}
		if j.names, err = approval.ReadNames(t.Tools); err != nil {
			return j, err
		}
	}
	var err error
	if j.tools, err = j.names.Compile(role.Tools); err != nil {
		return j, err
	}
	j.set, err = policy.Compile(policy.Rules{Read: rules.Read, Write: rules.Write, Ask: rules.Ask, Deny: rules.Deny, Hide: rules.Hide})
	return j, err
}

// tool decides about a call of a tool, as the agent's shim does: the policy first, then answers and
// rules, then the policy's questions.
func (j judged) tool(d api.RoleDecision, req api.RoleCheck) (api.RoleDecision, error) {
	name, class := j.names.Canonical(req.Tool)
	input := req.Input
	if input == nil {
		input = approval.Input(class, req.Text)
	}
	if req.Text != "" && input == nil {
		return d, api.Errorf(api.CodeBadRequest, "tool %q is of class %s: its arguments are not one text", api.Shorten(req.Tool, 64), class).WithHint("give them with --input JSON")
	}
	q, err := j.names.Question(req.Tool, input, j.roots)
	if err != nil {
		return d, err
	}
	d.Tool, d.Name, d.Class = approval.Escape(req.Tool), approval.Escape(name), class
	d.What, _ = approval.Bounded(q.Text, approval.MaxShown)
	for _, p := range q.Paths {
		if class != api.ToolRead && class != api.ToolEdit || !filepath.IsLocal(p) || p == "." {
			continue
		}
		v, rule := j.allows(p, class == api.ToolEdit)
		switch v {
		case policy.Deny, policy.Hide:
			return refused(d, p, rule), nil
		case policy.Ask:
			d.Then = fmt.Sprintf("the view asks about %s, too: %s of the policy", approval.Escape(p), rule)
		case policy.Allow:
		}
	}
	return j.rules(d, q), nil
}

// path decides about a path that a process reads or changes.
func (j judged) path(d api.RoleDecision, req api.RoleCheck) (api.RoleDecision, error) {
	p := filepath.Clean(req.Path)
	for _, root := range j.roots {
		if rel, err := filepath.Rel(root, p); root != "" && err == nil && filepath.IsLocal(rel) && filepath.IsAbs(p) {
			p = rel
			break
		}
	}
	if !filepath.IsLocal(p) {
		return d, api.Errorf(api.CodeBadRequest, "path = %q: it is not below the repository", api.Shorten(req.Path, 200)).WithHint("the policy is about paths of the repository; the rest of the sandbox has file permissions")
	}
	if p == "." {
		p = ""
	}
	d.Kind = api.ApprovalRead
	if req.Write {
		d.Kind = api.ApprovalWrite
	}
	d.What, _ = approval.Bounded(p, approval.MaxShown)
	v, rule := j.allows(p, req.Write)
	switch v {
	case policy.Deny, policy.Hide:
		return refused(d, p, rule), nil
	case policy.Allow:
		d.Verdict, d.By, d.Rule, d.Source = api.VerdictApprove, "policy", rule, "policy"
		return d, nil
	case policy.Ask:
	}
	d = j.rules(d, approval.Question{Kind: d.Kind, Text: p})
	if d.Verdict == api.VerdictAsk {
		d.By, d.Rule, d.Source = "policy", rule, "policy"
	}
	return d, nil
}

func (j judged) allows(path string, write bool) (policy.Verdict, string) {
	dec := j.set.DecideThrough(path, false)
	if write {
		return dec.Write, dec.Rule
	}
	return dec.Read, dec.Rule
}

// rules decides by remembered answers and the rules for tools.
func (j judged) rules(d api.RoleDecision, q approval.Question) api.RoleDecision {
	dec := approval.Rules{Tools: j.tools, Remembered: j.remembered}.Decide(q)
	d.Verdict, d.By, d.Rule, d.Source, d.Reason = dec.Verdict, "tools", dec.Rule, dec.Source, dec.Reason
	if id, ok := strings.CutPrefix(dec.Source, "answer "); ok {
		d.Answer, _, _ = strings.Cut(id, " ")
	}
	if d.Verdict == api.VerdictDeny {
		d.Then = ""
	}
	return d
}

func refused(d api.RoleDecision, path, rule string) api.RoleDecision {
	d.Verdict, d.By, d.Rule, d.Source = api.VerdictDeny, "policy", rule, "policy"
	d.Reason = fmt.Sprintf("the policy does not allow %s", approval.Escape(path))
	if rule == "" {
		d.Reason += ": no rule names it"
	}
	return d
}
