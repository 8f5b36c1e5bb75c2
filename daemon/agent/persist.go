package agent

import (
	"context"
	"slices"
	"sort"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// saveAgain is the interval between attempts to write a state.
const saveAgain = 2 * time.Second

// save writes the state of a workspace. A failed write is repeated until it succeeds: an agent's
// command also ends while the disk is full.
func (m *Manager) save(w *Workspace) error {
	// One at a time: an older state must not replace a newer one.
	w.saving.Lock()
	defer w.saving.Unlock()
	m.mu.Lock()
	var kept []store.Agent
	for _, a := range m.agents {
		if a.WS == w {
			k := a.Kept
			k.PortMappings = slices.Clone(k.PortMappings)
			k.KnownPorts = slices.Clone(k.KnownPorts)
			k.OwnedRefs = slices.Clone(k.OwnedRefs)
			kept = append(kept, k)
		}
	}
	removed := slices.Clone(w.Removed)
	m.mu.Unlock()
	sort.Slice(kept, func(i, j int) bool { return kept[i].Name < kept[j].Name })
	err := m.State.Save(w.Name, kept, removed)
	if err == nil {
		err = m.flushTasks(w)
	}
	if err != nil {
		err = notSaved(err, w, "save the state", "no existing file was changed")
	}
	m.mu.Lock()
	was := w.unsaved
	w.unsaved = err != nil
	m.mu.Unlock()
	switch {
	case err != nil && !was:
		m.Log.Error("state not saved", "workspace", w.Name, "err", err)
		m.Events.Publish(api.Event{Type: api.EventState, Code: api.CodeStateNotSaved, Message: err.Error(), Data: map[string]any{"workspace": w.Name}})
		if m.ctx.Err() == nil {
			m.wg.Go(func() { m.saveLater(m.ctx, w) })
		}
	case err == nil && was:
		m.Log.Warn("state saved again", "workspace", w.Name)
		m.Events.Publish(api.Event{Type: api.EventState, Message: "the state of workspace " + w.Name + " is saved again", Data: map[string]any{"workspace": w.Name}})
	}
	return err
}

// notSaved is STATE_NOT_SAVED. That another directory is at the path of the workspace is no fault of its disk.
func notSaved(err error, w *Workspace, what, then string) error {
	if api.CodeOf(err) == api.CodeWorkspaceInvalid {
		return err
	}
	return api.Errorf(api.CodeStateNotSaved, "%s of workspace %s: %w", what, w.Name, err).
		WithHint("free space in %s, or make it writable; %s", w.Root.Dir(), then)
}

// SaveWorkspace writes the state of a workspace whose queue has changed.
func (m *Manager) SaveWorkspace(name string) error {
	w, err := m.Workspace(name)
	if err != nil {
		return err
	}
	return m.save(w)
}

// saveLater repeats the write until it succeeds or ctx ends.
func (m *Manager) saveLater(ctx context.Context, w *Workspace) {
	t := time.NewTicker(saveAgain)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		m.mu.Lock()
		unsaved := w.unsaved
		m.mu.Unlock()
		if !unsaved || m.save(w) == nil {
			return
		}
	}
}

// Warnings returns what people must know: workspaces whose state cannot be written, then agents whose
// rules are lost, by name.
func (m *Manager) Warnings() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var unsaved, lost []string
	for _, w := range m.workspaces {
		if w.unsaved {
			unsaved = append(unsaved, string(api.CodeStateNotSaved)+": the state of workspace "+w.Name+" cannot be written; changes are refused until it can")
		}
	}
	for name, a := range m.agents {
		if a.Kept.RulesLost {
			lost = append(lost, string(api.CodeStateCorrupt)+": the rules of agent "+name+" are lost, and it may read and write nothing: polisctl agents set "+name+" --role ROLE, or --read and --write GLOBS, sets its rules; --egress LIST its destinations")
		}
	}
	sort.Strings(unsaved)
	sort.Strings(lost)
	return append(unsaved, lost...)
}

// writable refuses a change whose result could not be saved, before anything is done.
func (m *Manager) writable(a *Agent) error { return m.save(a.WS) }
