package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/rules/delegate"
	"polis/daemon/store"
)

// Delegate makes a worker, an ephemeral agent, and gives it the task. parent is the agent that
// delegates; "" is a person. The worker of an agent has no more rights than its parent, and the
// parent's base type and role.
func (m *Manager) Delegate(ctx context.Context, parent string, req api.DelegateRequest) (api.Worker, error) {
	add, of, err := m.workerOf(ctx, parent, req)
	if err != nil {
		return api.Worker{}, err
	}
	var a api.Agent
	for {
		if add.Name, err = m.workerName(add.Workspace, req.Branch); err != nil {
			return api.Worker{}, err
		}
		a, err = m.add(ctx, add, of)
		if err == nil || api.CodeOf(err) != api.CodeAgentExists { // another request was faster
			break
		}
	}
	if err != nil {
		return api.Worker{}, err
	}
	m.crash("delegate:added")
	err = m.narrowAfter(ctx, parent)
	if err == nil {
		_, err = m.Run(ctx, a.Name, api.RunRequest{Prompt: req.Task, Model: req.Model, Commit: req.Commit})
	}
	if err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		_, rerr := m.Remove(uctx, a.Name, true, false)
		return api.Worker{}, errors.Join(err, rerr)
	}
	m.Events.Publish(api.Event{Type: api.EventWorker, Agent: a.Name, Message: "agent " + a.Name + " was made for a task on branch " + a.Branch,
		Data: map[string]any{"parent": parent, "branch": a.Branch, "requestId": api.Shorten(req.RequestID, maxRequestID)}})
	w, err := m.Worker(ctx, parent, a.Name, false)
	w.RequestID = req.RequestID
	return w, err
}

// maxRequestID bounds the caller's own ID of a request, in bytes.
const maxRequestID = 128

// workerOf makes the request for a worker.
func (m *Manager) workerOf(ctx context.Context, parent string, req api.DelegateRequest) (api.AddRequest, *store.Worker, error) {
	add := api.AddRequest{Branch: req.Branch, BaseType: req.BaseType, AgentSpec: req.AgentSpec, Ephemeral: true}
	switch {
	case req.Type != "" && req.Type != api.WorkersDelegate:
		return add, nil, api.Errorf(api.CodeBadRequest, "type = %q: must be %q", api.Shorten(req.Type, 32), api.WorkersDelegate)
	case len(req.RequestID) > maxRequestID:
		return add, nil, api.Errorf(api.CodeBadRequest, "requestId has %d bytes: at most %d", len(req.RequestID), maxRequestID)
	case req.Branch == "":
		return add, nil, api.Errorf(api.CodeBadRequest, "branch is empty").WithHint("a worker needs a branch of its own, such as feat/login")
	}
	if err := checkPrompt(req.Task); err != nil {
		return add, nil, err
	}
	if parent == "" {
		base, err := m.workerType(req.BaseType)
		if err != nil {
			return add, nil, err
		}
		ws, err := m.Workspace(req.Workspace)
		if err != nil {
			return add, nil, err
		}
		add.BaseType, add.Workspace = base, ws.Name
		return add, &store.Worker{}, ws.NeedsGit("a worker has a branch")
	}
	return m.workerOfAgent(ctx, parent, req, add)
}

// workerType returns the base type of a person's worker.
func (m *Manager) workerType(given string) (string, error) {
	if base := cmp.Or(given, m.config().Delegate.BaseType); base != "" {
		return base, nil
	}
	types, err := m.Types()
	if err != nil {
		return "", err
	}
	var have []string
	for name, t := range types {
		if t.Available && t.Program != "" {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	if len(have) == 1 {
		return have[0], nil
	}
	return "", api.Errorf(api.CodeAgentTypeUnavailable, "base_type is empty, and there are %d types to choose from", len(have)).With("available", have).
		WithHint("--base TYPE chooses one, base_type in [delegate] of polisd.toml is the usual one; polisctl agents types lists them")
}

// workerOfAgent fills in what the worker of an agent has of its parent.
func (m *Manager) workerOfAgent(ctx context.Context, parent string, req api.DelegateRequest, add api.AddRequest) (api.AddRequest, *store.Worker, error) {
	p, err := m.lookup(parent)
	if err != nil {
		return add, nil, err
	}
	k, c := p.Copy(), m.config()
	switch {
	case req.Workspace != "" && req.Workspace != p.WS.Name, req.Force:
		return add, nil, api.Errorf(api.CodeForbidden, "workspace and force cannot be set by an agent")
	case req.BaseType != "" && req.BaseType != k.BaseType:
		return add, nil, api.Errorf(api.CodeForbidden, "base_type = %q: a worker is of its parent's type, %s", api.Shorten(req.BaseType, 64), k.BaseType).WithHint("leave --base out")
	case req.Role != "" && req.Role != k.Role:
		return add, nil, api.Errorf(api.CodeForbidden, "role = %q: a worker has its parent's role, %q", api.Shorten(req.Role, 64), k.Role).WithHint("leave --role out; rules and limits can be narrowed")
	case k.RulesLost:
		return add, nil, api.Errorf(api.CodeBadState, "the rules of agent %s are lost: it can delegate nothing", parent)
	}
	if err := errors.Join(p.WS.NeedsGit("a worker has a branch"), p.changes("delegate work")); err != nil {
		return add, nil, err
	}
	of := &store.Worker{Parent: parent, Session: k.Session, Depth: 1, Root: parent}
	if k.Worker != nil && k.Worker.Parent != "" {
		of.Depth, of.Root = k.Worker.Depth+1, cmp.Or(k.Worker.Root, k.Worker.Parent)
	}
	if there, err := p.WS.Repo.HasBranch(ctx, req.Branch); err != nil || there {
		return add, nil, errors.Join(err, takenBranch(req.Branch, there))
	}
	if err := m.budgetLeft(ctx, p, of.Root); err != nil {
		return add, nil, err
	}
	has, err := rights(c, p, k)
	if err != nil {
		return add, nil, err
	}
	if err := m.shared(c, p, &has, &req); err != nil {
		return add, nil, err
	}
	got, err := delegate.Narrow(has, delegate.Want{Policy: req.Policy, MemoryMB: req.MemoryMB, Limits: req.Limits, Egress: req.Egress, HostPorts: req.HostPorts})
	if err != nil {
		return add, nil, err
	}
	// No other field of the request counts. What is as configured for the parent follows the configuration here, too.
	add.AgentSpec = api.AgentSpec{Command: req.Command, Egress: req.Egress, HostPorts: req.HostPorts}
	add.Workspace, add.BaseType, add.Role, add.Policy, add.MemoryMB = p.WS.Name, k.BaseType, k.Role, &got.Policy, got.MemoryMB
	add.Limits, add.Env, add.Leftovers = req.Limits.Over(k.Limits), k.Env, k.Leftovers
	add.Cone, add.NoSparse = k.Sparse.Clone(), k.Sparse == nil
	if req.Egress == nil {
		add.Egress = k.Egress
	}
	if req.HostPorts == nil {
		add.HostPorts = k.HostPorts
	}
	if len(req.Command) == 0 {
		add.Command = k.Command
	}
	add.AutoMerge = k.AutoMerge
	if no := false; !req.Merge {
		add.AutoMerge = &no
	}
	return add, of, nil
}

func takenBranch(branch string, there bool) error {
	if !there {
		return nil
	}
	return api.Errorf(api.CodeRefConflict, "branch %s is there already", api.Shorten(branch, 200)).WithHint("choose a new one for the worker")
}

// rights are what an agent may do and use now.
func rights(c config.Config, a *Agent, k store.Agent) (delegate.Rights, error) {
	r, err := c.Reach(k.Role, a.Type, ownReach(k))
	if err != nil {
		return delegate.Rights{}, err
	}
	return delegate.Rights{Policy: k.Policy, MemoryMB: k.MemoryLimitMB, Limits: c.Limits.Agent(k.Limits), Egress: r.Policy.Entries(), HostPorts: r.HostPorts}, nil
}

// shared leaves of an agent's limits what it can still give to a worker, and fills in the limits that
// the request does not name: an equal share for each worker that it may have, and for itself.
func (m *Manager) shared(c config.Config, p *Agent, has *delegate.Rights, req *api.DelegateRequest) error {
	budget := delegate.BudgetOf(has.MemoryMB, has.Limits)
	m.mu.Lock()
	lent := m.lent(p, nil)
	m.mu.Unlock()
	share, rest := budget.Share(lent, c.Delegate.Workers), budget.Rest(lent)
	if short, ok := budget.Covers(lent.Plus(delegate.Budget{MemoryMB: 16, Pids: 1, DiskMB: 1, DiskFiles: 1})); !ok {
		return notLeft(short, p.Name())
	}
	has.MemoryMB, has.Limits = rest.MemoryMB, rest.Over(has.Limits)
	req.MemoryMB = cmp.Or(req.MemoryMB, max(share.MemoryMB, 16))
	req.Limits.Pids, req.Limits.DiskMB, req.Limits.DiskFiles = cmp.Or(req.Limits.Pids, share.Pids), cmp.Or(req.Limits.DiskMB, share.DiskMB), cmp.Or(req.Limits.DiskFiles, share.DiskFiles)
	return nil
}

// narrowAfter applies rights that a parent lost while its worker was being made.
func (m *Manager) narrowAfter(ctx context.Context, parent string) error {
	if parent == "" {
		return nil
	}
	p, err := m.lookup(parent)
	if err != nil {
		return err
	}
	return m.narrowWorkers(ctx, p, true)
}

// workerName returns a free name for the worker of a branch. It is never one for which polisd.toml
// has a table, because an agent chooses the branch, nor that of a removed agent, whose result it
// would hide.
func (m *Manager) workerName(workspace, branch string) (string, error) {
	c := m.config()
	ws, err := m.Workspace(workspace)
	if err != nil {
		return "", err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range delegate.Names(branch) {
		_, table := c.Agents[name]
		_, rules := c.Git.Agents[name]
		gone := slices.ContainsFunc(ws.Removed, func(r store.Removed) bool { return r.Agent.Name == name })
		if m.agents[name] == nil && !table && !rules && !gone {
			return name, nil
		}
	}
	return "", api.Errorf(api.CodeInvalidName, "no name is free for the worker of branch %s", api.Shorten(branch, 64)).WithHint("choose another branch")
}

// workerRoom refuses a worker of an agent that has too many, or is too deep. m.mu is held.
func (m *Manager) workerRoom(a *Agent, c config.Config) error {
	of := a.Kept.Worker
	if of == nil || of.Parent == "" || a.Kept.Restoring != nil { // a person brings one back
		return nil
	}
	if m.parent(a) == nil {
		return api.Errorf(api.CodeBadState, "agent %s is being removed: it can delegate nothing", of.Parent)
	}
	if of.Depth > c.Delegate.Depth {
		return api.Errorf(api.CodeForbidden, "workers of agents may be nested %d deep: agent %s can delegate nothing", c.Delegate.Depth, of.Parent).
			WithHint("do the task yourself; depth in [delegate] of polisd.toml is the bound")
	}
	n := 0
	for _, o := range m.agents {
		if w := o.Kept.Worker; w != nil && w.Parent != "" && w.Root == of.Root {
			n++
		}
	}
	if n < c.Delegate.Workers {
		return m.takesTooMuch(a, a.Kept)
	}
	if n >= c.Delegate.Workers {
		return api.Errorf(api.CodeQuota, "agent %s has %s: at most %d, those of its workers included", of.Root, api.Count(n, "worker"), c.Delegate.Workers).With("count", n).
			WithHint("polisctl workers cleanup removes those that have ended; workers in [delegate] of polisd.toml is the bound")
	}
	return nil
}

// OfAgent reports whether it is the worker of another agent.
func (a *Agent) OfAgent() bool { return a.Kept.Worker != nil && a.Kept.Worker.Parent != "" }

// Parent returns the agent that made a worker, or nil if a person made it or that agent is gone.
func (m *Manager) Parent(a *Agent) *Agent {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.parent(a)
}

// parent is Parent. m.mu is held.
func (m *Manager) parent(a *Agent) *Agent {
	of := a.Kept.Worker
	if of == nil || of.Parent == "" {
		return nil
	}
	p := m.agents[of.Parent]
	if p == nil || p.Kept.Session != of.Session || p.Kept.Removal != nil {
		return nil
	}
	return p
}

// ParentOf is the name of the parent of an agent; "" if it has none.
func (m *Manager) ParentOf(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.agents[name]; a != nil {
		if p := m.parent(a); p != nil {
			return p.Kept.Name
		}
	}
	return ""
}
