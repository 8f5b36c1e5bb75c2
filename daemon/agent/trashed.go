package agent

import (
	"fmt"
	"os"
	"path/filepath"

	"polis/daemon/api"
)

// Trashed records that the worktree of an agent was broken and moved to dir, and publishes it: what was not committed is
// only there. It is called while the agent is started.
func (m *Manager) Trashed(name, dir string, why error) {
	m.mu.Lock()
	a := m.agents[name]
	if a != nil {
		a.Kept.Trashed = dir
	}
	m.mu.Unlock()
	e := api.Event{Type: api.EventWorktree, Agent: name, Code: api.CodeWorktreeCorrupt, Data: map[string]any{"trash": dir, "reason": why.Error(), "hint": trashedHint(dir, name)},
		Message: fmt.Sprintf("the worktree of agent %s was broken (%v): it was moved to %s, and a new one is made from its branch", name, why, dir)}
	m.Events.Publish(e)
	if a == nil {
		return
	}
	if err := m.save(a.WS); err != nil {
		m.Log.Error("state not saved", "agent", name, "err", err)
	}
}

// trashedHint is how files of a broken worktree are brought back: in the sandbox, because a path of the worktree can lead
// anywhere on the host.
func trashedHint(dir, name string) string {
	return fmt.Sprintf("tar -C %s -c FILE | polisctl agents exec %s -- tar -x", filepath.Join(dir, "worktree"), name)
}

// trashedWorktree is where a broken worktree of an agent is, "" if it is there no longer.
func trashedWorktree(dir string) string {
	if dir == "" {
		return ""
	}
	if _, err := os.Lstat(dir); err != nil {
		return ""
	}
	return dir
}

// trashedWarning is the text for people.
func trashedWarning(v api.Agent) []string {
	if v.TrashedWorktree == "" {
		return nil
	}
	return []string{fmt.Sprintf("its worktree was broken and is in %s since: %s", v.TrashedWorktree, trashedHint(v.TrashedWorktree, v.Name))}
}
