package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// maxRemoved is the most removed agents that are recorded for a workspace.
const maxRemoved = 500

// remember records an agent for RestoreAgent.
func (m *Manager) remember(a *Agent, how store.Removal) {
	if a.Kept.ReadOnly {
		return // there is nothing of it to restore
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	gone := store.Removed{Agent: a.Kept, At: m.Now().UTC(), Trash: how.Trash, Head: how.Head}
	gone.Agent.Session, gone.Agent.Secret, gone.Agent.InTask, gone.Agent.Removal = "", "", false, nil
	if how.Discard {
		gone.Agent.MergeStatus = api.MergeDiscarded
	}
	r := append(slices.Clone(a.WS.Removed), gone)
	a.WS.Removed = r[max(0, len(r)-maxRemoved):]
}

// RemovedFrom returns the agents that were removed from a workspace, oldest first.
func (m *Manager) RemovedFrom(workspace string) []store.Removed {
	w, err := m.Workspace(workspace)
	if err != nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(w.Removed)
}

// ForgetRemoved deletes the records of agents that were removed before the given time.
func (m *Manager) ForgetRemoved(workspace string, before time.Time) error {
	w, err := m.Workspace(workspace)
	if err != nil {
		return err
	}
	m.mu.Lock()
	old := len(w.Removed)
	w.Removed = slices.DeleteFunc(slices.Clone(w.Removed), func(r store.Removed) bool { return r.At.Before(before) })
	changed := len(w.Removed) != old
	m.mu.Unlock()
	if !changed {
		return nil
	}
	return m.save(w)
}

// RestoreAgent restores a removed or discarded agent: its settings, its branch and every saved
// file. It is then Idle, as after Add.
func (m *Manager) RestoreAgent(ctx context.Context, name string, req api.RestoreRequest) (api.Agent, error) {
	as := name
	if req.As != "" {
		as = req.As
	}
	if err := errors.Join(api.CheckName(name), api.CheckName(as)); err != nil {
		return api.Agent{}, err
	}
	ws, gone, err := m.lost(ctx, name, req)
	if err != nil {
		return api.Agent{}, err
	}
	a, err := m.again(ws, gone, as, req.Branch)
	if err != nil {
		return api.Agent{}, err
	}
	defer a.op.Unlock()
	for _, p := range a.Kept.KnownPorts {
		m.Ports.Remember(a.key(p), p.External)
	}
	if err := m.save(ws); err != nil {
		m.mu.Lock()
		delete(m.agents, as)
		m.mu.Unlock()
		return api.Agent{}, err
	}
	m.crash("restore:noted")
	if err := m.refill(ctx, a, Saved{Ref: gone.Trash, Head: gone.Head}, gone.Agent.PortMappings, false); err != nil {
		uctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
		defer cancel()
		return api.Agent{}, errors.Join(err, m.unrestore(uctx, a))
	}
	m.mu.Lock()
	ws.Removed = slices.DeleteFunc(slices.Clone(ws.Removed), func(r store.Removed) bool {
		return r.Agent.Name == name && r.Trash == gone.Trash && r.At.Equal(gone.At)
	})
	a.Kept.Restoring = nil
	m.mu.Unlock()
	m.setStatus(a, api.StatusIdle, "") // complete, and no longer in the trash: saved together
	m.crash("restore:done")
	m.Events.Publish(api.Event{Type: api.EventAgentRestored, Agent: as, Message: fmt.Sprintf("agent %s was restored on branch %s", as, a.Kept.Branch), Data: with(a.record(), map[string]any{"trash": gone.Trash, "was": name})})
	return m.live(ctx, a), nil
}

// refill makes worktree, branch and sandbox from saved work, with the port maps that a user had made.
func (m *Manager) refill(ctx context.Context, a *Agent, saved Saved, had []store.PortMap, force bool) error {
	if err := a.WS.Repo.Restore(ctx, a, saved); err != nil {
		return err
	}
	m.crash("restore:files")
	var maps []store.PortMap
	for _, p := range had {
		if !p.Auto {
			maps = append(maps, p)
		}
	}
	return m.create(ctx, a, maps, force)
}

// unrestore removes an agent that was not restored completely. No process has run in it, so the
// saved work is still complete.
func (m *Manager) unrestore(ctx context.Context, a *Agent) error {
	from := *a.Kept.Restoring
	a.Saved = &Saved{Ref: from.Trash, Head: from.Head}
	err := m.dismantle(ctx, a)
	if from.From != "" {
		m.dropBranch(ctx, a, cmp.Or(from.Trash, from.Head)) // no one else has used it
		m.dropSnapshot(ctx, a, from.Trash)
		return errors.Join(err, m.forget(a))
	}
	m.dropOwnBranch(ctx, a, from.Trash)
	return errors.Join(err, m.forget(a))
}

// lost returns the record of a removed agent: the newest one, or that of a trash ref. Without a
// record it returns the newest saved work of that name.
func (m *Manager) lost(ctx context.Context, name string, req api.RestoreRequest) (*Workspace, store.Removed, error) {
	m.mu.Lock()
	var found []*Workspace
	var gone store.Removed
	var plain *Workspace
	var all []*Workspace
	for _, w := range m.workspaces {
		if req.Workspace != "" && w.Name != req.Workspace {
			continue
		}
		if !w.Git {
			plain = w
			continue
		}
		all = append(all, w)
		for _, r := range w.Removed {
			if r.Agent.Name == name && (req.Ref == "" || r.Trash == req.Ref) {
				if !slices.Contains(found, w) {
					found = append(found, w)
				}
				gone = r
			}
		}
	}
	m.mu.Unlock()
	if len(found) > 1 {
		return nil, gone, api.Errorf(api.CodeBadRequest, "%d workspaces had an agent %s: choose one", len(found), name).WithHint("--workspace NAME")
	}
	if len(found) == 1 {
		return found[0], gone, nil
	}
	if plain != nil && len(all) == 0 {
		return nil, gone, plain.NeedsGit("what its agents changed stays in it, and nothing is saved in the trash")
	}
	for _, w := range all {
		s, branch, err := w.Repo.Newest(ctx, name)
		if err != nil {
			return nil, gone, err
		}
		if s.Ref == "" {
			continue
		}
		if req.Ref != "" {
			s.Ref = req.Ref
		}
		return w, store.Removed{Trash: s.Ref, Head: s.Head, Agent: store.Agent{Name: name, BaseType: "custom", Branch: branch, MemoryLimitMB: m.config().Limits.MemoryMB,
			Policy: closed(), RulesLost: true, Egress: []string{"none"}}}, nil
	}
	return nil, gone, api.Errorf(api.CodeNotFound, "the trash has no work of an agent %s", api.Shorten(name, 64)).WithHint("polisctl gc --dry-run lists the trash")
}

// again registers a removed agent under a name. Its op is then held.
func (m *Manager) again(ws *Workspace, gone store.Removed, as, branch string) (*Agent, error) {
	types, err := m.Types()
	if err != nil {
		return nil, err
	}
	k := gone.Agent
	if branch == "" && as != k.Name {
		branch = "agent/" + as
	}
	if branch != "" {
		k.Branch = branch
	}
	sess, err1 := secret()
	sec, err2 := secret()
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	k.Name, k.Session, k.Secret, k.Status, k.StatusReason = as, sess, sec, api.StatusCreating, ""
	k.Restoring = &store.Removal{Trash: gone.Trash, Head: gone.Head}
	k.PortMappings, k.CgroupPath, k.CreatedAt = []store.PortMap{}, "", m.Now().UTC().Truncate(time.Millisecond)
	if k.MergeStatus == api.MergeDiscarded {
		k.MergeStatus = api.MergePending
	}
	a := &Agent{WS: ws, Type: types[k.BaseType], Kept: k}
	if a.Type.Name == "" {
		a.Type = config.BaseType{Name: k.BaseType}
	}
	return a, m.enter(a, m.config())
}
