package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/daemon/store"
)

// Remove removes an agent and its worktree. Work that is not in the target branch is saved first;
// with ignored, this includes ignored files. Without force, such work is an error instead.
func (m *Manager) Remove(ctx context.Context, name string, force, ignored bool) (api.RemoveResponse, error) {
	return m.removeOnly(ctx, nil, name, force, ignored)
}

// removeOnly is Remove for one agent, if it is not nil: not for another one that has got its name.
func (m *Manager) removeOnly(ctx context.Context, only *Agent, name string, force, ignored bool) (api.RemoveResponse, error) {
	verb := verbRemove
	if force {
		verb = verbForce
	}
	a, err := m.findFor(ctx, name, verb)
	if err != nil {
		return api.RemoveResponse{}, err
	}
	defer a.op.Unlock()
	if only != nil && a != only {
		return api.RemoveResponse{}, notFound(name)
	}
	if !force {
		if err := m.unsaved(ctx, a); err != nil {
			return api.RemoveResponse{}, err
		}
	}
	return m.remove(ctx, a, store.Removal{Ignored: ignored})
}

// maxNestedShown bounds the repositories inside a worktree that a message describes.
const maxNestedShown = 3

// unsaved returns an error if the agent has work that is stored nowhere else. a.op is held.
func (m *Manager) unsaved(ctx context.Context, a *Agent) error {
	if !a.WS.Git {
		return nil
	}
	name := a.Name()
	ws, err := a.WS.Repo.Status(ctx, a)
	if err != nil {
		return api.Errorf(api.CodeUnsavedWork, "unsaved work of agent %s not determined: %w", name, err).
			WithHint("--force saves everything in the trash and removes it")
	}
	if len(ws.Worktrees) > 0 {
		return api.Errorf(api.CodeUnsavedWork, "agent %s has git worktrees of its own: %s; whether everything in them is committed is not known", name, strings.Join(ws.Worktrees, ", ")).
			With("worktrees", ws.Worktrees).With("dirty", ws.Dirty).With("unmerged", ws.Unmerged).
			WithHint("git worktree remove DIR in the agent removes one that is clean, and git worktree prune those whose directory is gone; --force removes the agent and keeps its directory in the trash, but not worktrees in its $HOME or /tmp")
	}
	if ws.Dirty > 0 || ws.Unmerged > 0 {
		e := api.Errorf(api.CodeUnsavedWork, "agent %s has work that is nowhere else: %s, %s not in %s", name, api.Count(ws.Dirty, "changed file"), api.Count(ws.Unmerged, "commit"), a.WS.Target).
			With("paths", api.EncodePaths(ws.Paths)).With("dirty", ws.Dirty).With("unmerged", ws.Unmerged)
		if len(ws.Elsewhere) > 0 {
			return m.unsavedElsewhere(e, name, ws)
		}
		if len(ws.Nested) > 0 {
			e.Message += "; of a repository inside its worktree, " + strings.Join(ws.Nested[:min(len(ws.Nested), maxNestedShown)], "; ")
			e = e.With("nested", ws.Nested)
		}
		if len(ws.Private) > 0 {
			e.Message += fmt.Sprintf("; part of it only in refs of its tools: %s", strings.Join(ws.Private[:min(len(ws.Private), 3)], ", "))
			return e.With("private_refs", ws.Private).WithHint("--force removes the agent and keeps everything under refs/polis/trash/%s, from where polisctl restore %s brings it back; git update-ref -d REF in the agent drops what is not needed", name, name)
		}
		if len(ws.Nested) > 0 && ws.Dirty == len(ws.Nested) && ws.Unmerged == 0 {
			return e.WithHint("polisctl agents exec %s -- git -C DIR push brings the commits of a repository home; --force removes the agent and keeps everything under refs/polis/trash/%s", name, name)
		}
		if ws.Dirty > 0 {
			return e.WithHint("polisctl agents commit %s && polisctl merge %s bring the work home; --force removes the agent and keeps everything under refs/polis/trash/%s", name, name, name)
		}
		return e.WithHint("polisctl merge %s brings the commits home; --force removes the agent and keeps everything under refs/polis/trash/%s", name, name)
	}
	return nil
}

// unsavedElsewhere says where the commits are that a merge would not contain.
func (m *Manager) unsavedElsewhere(e *api.Error, name string, ws WorktreeStatus) error {
	e.Message += ": " + api.BranchesText(ws.Elsewhere, "the same command with --json")
	e = e.With("elsewhere", ws.Elsewhere)
	first := ws.Elsewhere[0]
	if ws.Dirty > 0 {
		return e.WithHint("polisctl agents commit %s && %s; --force removes the agent and keeps everything under refs/polis/trash/%s", name, first.Run, name)
	}
	return e.WithHint("%s brings the commits home; --force removes the agent and keeps everything under refs/polis/trash/%s", first.Run, name)
}

// Discard saves the agent's work and removes agent, worktree and branch.
func (m *Manager) Discard(ctx context.Context, name string, ignored bool) (api.RemoveResponse, error) {
	a, err := m.findFor(ctx, name, verbForce)
	if err != nil {
		return api.RemoveResponse{}, err
	}
	defer a.op.Unlock()
	return m.discard(ctx, a, ignored)
}

// discard is Discard; a.op is held.
func (m *Manager) discard(ctx context.Context, a *Agent, ignored bool) (api.RemoveResponse, error) {
	name := a.Name()
	if err := a.WS.NeedsGit("what agent " + name + " changed is in the project already; polisctl agents remove takes the agent away"); err != nil {
		return api.RemoveResponse{}, err
	}
	r, err := m.remove(ctx, a, store.Removal{Discard: true, Ignored: ignored})
	if err == nil {
		kept := "nothing of it was only there"
		if r.Trash != "" {
			kept = "it is kept as " + r.Trash
		}
		m.Events.Publish(api.Event{Type: api.EventAgentDiscarded, Agent: name, Message: fmt.Sprintf("the work of agent %s was discarded; %s", name, kept), Data: map[string]any{"trash": r.Trash}})
	}
	return r, err
}

// remove removes an agent. It records the removal first, and each later step can be repeated, so
// that the next daemon can finish it. a.op is held.
func (m *Manager) remove(ctx context.Context, a *Agent, how store.Removal) (api.RemoveResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime+m.downTime(a))
	defer cancel()
	if err := m.noteRemoval(a, &how); err != nil {
		return api.RemoveResponse{Name: a.Name()}, err
	}
	m.crash("remove:noted")
	resp, err := m.takeAway(ctx, a)
	if err != nil {
		// The agent stays, and is complete enough for another attempt.
		return resp, errors.Join(err, m.noteRemoval(a, nil))
	}
	m.Events.Publish(api.Event{Type: api.EventAgentRemoved, Agent: a.Name(), Message: "agent " + a.Name() + " was removed", Data: map[string]any{"workspace": a.WS.Name, "trash": resp.Trash}})
	return resp, nil
}

// noteRemoval records that the agent is being removed or, with nil, that it is not.
func (m *Manager) noteRemoval(a *Agent, r *store.Removal) error {
	m.mu.Lock()
	old := a.Kept.Removal
	a.Kept.Removal = r
	m.mu.Unlock()
	err := m.save(a.WS)
	if err != nil {
		m.mu.Lock()
		a.Kept.Removal = old
		m.mu.Unlock()
	}
	return err
}

// takeAway completes a recorded removal from the step at which it stopped.
func (m *Manager) takeAway(ctx context.Context, a *Agent) (api.RemoveResponse, error) {
	noted := *a.Kept.Removal
	resp := api.RemoveResponse{Name: a.Name(), Trash: noted.Trash}
	if err := m.stop(ctx, a); err != nil {
		return resp, err
	}
	m.crash("remove:stopped")
	if a.WS.Git && noted.Trash == "" {
		saved, err := a.WS.Repo.Save(ctx, a, noted.Ignored)
		if now := a.WS.Repo.Cone(ctx, a); err == nil && a.Kept.Sparse != nil {
			m.mu.Lock()
			a.Kept.Sparse = now // RestoreAgent makes the worktree as it was last
			m.mu.Unlock()
		}
		if err != nil {
			return resp, api.Errorf(api.CodeUnsavedWork, "save the work of agent %s in the trash: %w", a.Name(), err).
				WithHint("nothing was removed; the worktree is at %s", a.Worktree())
		}
		m.crash("remove:saved")
		a.Saved, resp.Trash = &saved, saved.Ref
		noted.Trash, noted.Head = saved.Ref, saved.Head
		if err := m.noteRemoval(a, &noted); err != nil {
			return resp, err
		}
	}
	m.crash("remove:kept")
	if err := m.dismantle(ctx, a); err != nil {
		m.setStatus(a, api.StatusError, err.Error())
		return resp, err
	}
	resp.Aside = a.TrashDir
	if noted.Discard {
		m.dropBranch(ctx, a, resp.Trash)
	} else {
		m.dropOwnBranch(ctx, a, resp.Trash)
	}
	m.crash("remove:branch")
	m.decidedByRemoval(a)
	m.remember(a, noted)
	err := m.forget(a)
	m.crash("remove:forgotten")
	return resp, err
}

// dropOwnBranch deletes the branch that polis made for the agent.
func (m *Manager) dropOwnBranch(ctx context.Context, a *Agent, trash string) {
	if a.Kept.Branch == "agent/"+a.Name() {
		m.dropBranch(ctx, a, trash)
	}
}

// dropBranch deletes the agent's branch if all of its commits are in the target or in the trash.
func (m *Manager) dropBranch(ctx context.Context, a *Agent, trash string) {
	if !a.WS.Git {
		return
	}
	if err := a.WS.Repo.DropBranch(ctx, a, trash); err != nil {
		m.Log.Warn("branch not deleted", "agent", a.Name(), "err", err)
	}
}
