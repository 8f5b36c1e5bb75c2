package agent

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
)

// heal finishes the removal of an agent that was never complete, or that has lost its worktree.
func (m *Manager) heal(ctx context.Context, a *Agent, missing bool, rep *Report) {
	a.op.Lock()
	defer a.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, m.downTime(a))
	defer cancel()
	if a.Kept.Restoring != nil {
		if err := m.unrestore(ctx, a); err != nil {
			rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
			return
		}
		if from := a.Kept.Restoring.From; from != "" {
			rep.add(&rep.Healed, "%s: was being forked from agent %s when the daemon ended, undone", a.Name(), from)
			return
		}
		rep.add(&rep.Healed, "%s: was being restored when the daemon ended; undone; its work is still in the trash and can be restored again", a.Name())
		return
	}
	kept := ""
	if missing && a.WS.Git {
		// The files are lost. Commits, and a stash of the agent's own, are not.
		saved, err := a.WS.Repo.Save(ctx, a, false)
		if err != nil {
			m.found(a, api.StatusError, string(api.CodeWorktreeMissing)+", and what is left of its work cannot be saved in the trash: "+err.Error())
			rep.add(&rep.Errors, "%s: %s: what is left cannot be saved in the trash: %v", a.Name(), api.CodeWorktreeMissing, err)
			return
		}
		if saved.Ref != "" {
			kept = "; what git has of it is kept as " + saved.Ref
		}
		m.remember(a, store.Removal{Trash: saved.Ref, Head: saved.Head})
	}
	if err := m.dismantle(ctx, a); err != nil {
		rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
	}
	if !missing {
		m.dropOwnBranch(ctx, a, "")
	}
	if err := m.forget(a); err != nil {
		rep.add(&rep.Errors, "agent %s: %v", a.Name(), err)
	}
	if missing {
		m.Log.Error("worktree missing; agent dropped from the state", "agent", a.Name(), "code", api.CodeWorktreeMissing)
		rep.add(&rep.Dropped, "%s: %s: dropped from the state%s", a.Name(), api.CodeWorktreeMissing, kept)
		return
	}
	rep.add(&rep.Healed, "%s: was being added when the daemon ended, undone", a.Name())
}

// finishRemoval completes a removal that the last daemon began.
func (m *Manager) finishRemoval(ctx context.Context, a *Agent, rep *Report) {
	a.op.Lock()
	defer a.op.Unlock()
	ctx, cancel := context.WithTimeout(ctx, undoTime+m.downTime(a))
	defer cancel()
	a.Kept.Status, a.Kept.StatusSince = api.StatusStopped, m.Now().UTC()
	resp, err := m.takeAway(ctx, a)
	if err != nil {
		m.found(a, api.StatusError, "its removal could not be finished: "+api.AsError(err).Message)
		rep.add(&rep.Errors, "%s: was being removed when the daemon ended, and cannot be: %v", a.Name(), err)
		return
	}
	kept := "nothing of it was unsaved"
	if resp.Trash != "" {
		kept = "its work is kept as " + resp.Trash
	}
	m.Log.Warn("removal finished", "agent", a.Name(), "trash", resp.Trash)
	rep.add(&rep.Healed, "%s: was being removed when the daemon ended, finished; %s", a.Name(), kept)
}

// skip leaves an agent with a corrupt worktree unchanged, unless it is working in it (property
// 22).
func (m *Manager) skip(ctx context.Context, a *Agent, why error, rep *Report) bool {
	alive, err := m.Shims.Alive(ctx, a)
	if err != nil {
		rep.add(&rep.Errors, "%s: %v", a.Name(), err)
	}
	if alive {
		return false
	}
	if err == nil {
		m.Locks.DropAgent(a.Name())
	}
	m.Log.Error("worktree corrupt; agent skipped", "agent", a.Name(), "code", api.CodeWorktreeCorrupt, "err", why)
	m.found(a, api.StatusError, string(api.CodeWorktreeCorrupt)+": "+why.Error()+"; nothing of it was touched: polisctl agents start "+a.Name()+
		" puts it in .polis/trash and makes a new one from its branch, polisctl agents remove --force "+a.Name()+" only puts it there")
	rep.add(&rep.Skipped, "%s: %s: %v", a.Name(), api.CodeWorktreeCorrupt, why)
	return true
}

// closed returns the rules of an agent whose own rules are lost: it may do nothing.
func closed() api.Policy { return api.Policy{Deny: []string{"**"}} }

// minimal registers a worktree that is missing in the state. It gets the rules of its shim's spec.
// Without a spec it gets closed: lost rules must not become permission for everything.
func (m *Manager) minimal(ctx context.Context, ws *Workspace, name string, types map[string]config.BaseType, rep *Report) (*Agent, error) {
	sess, err := secret()
	if err != nil {
		return nil, err
	}
	sec, err := secret()
	if err != nil {
		return nil, err
	}
	a := &Agent{WS: ws, Type: types["custom"], Kept: store.Agent{Name: name, BaseType: "custom", Branch: "agent/" + name,
		MemoryLimitMB: m.config().Limits.MemoryMB, PortMappings: []store.PortMap{}, CreatedAt: m.Now().UTC(), Status: api.StatusStopped, StatusSince: m.Now().UTC(), Session: sess, Secret: sec,
		Policy: closed(), RulesLost: true, Egress: []string{"none"},
		StatusReason: "found without state: its role, rules and limits are lost; it can read and write nothing until polisctl agents set " + name + " --role ROLE, or --read and --write GLOBS, sets its rules, and --egress LIST its destinations"}}
	if sp, ok := m.Shims.Spec(name); ok && sp.Workspace == ws.Name {
		m.fromSpec(a, sp, types)
	} else {
		m.Log.Warn("rules lost; the agent may do nothing until it gets new ones", "agent", name, "code", api.CodeStateCorrupt)
	}
	if ws.Git {
		a.Kept.Sparse = ws.Repo.FoundCone(ctx, name)
	}
	m.Log.Warn("worktree without state found", "agent", name, "shim", a.Kept.Generation > 0)
	m.mu.Lock()
	m.agents[name] = a
	m.mu.Unlock()
	m.claimPorts(a, rep)
	return a, nil
}
