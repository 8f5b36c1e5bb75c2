package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/layout"
	"polis/daemon/store"
)

func (d *Daemon) registryFile() string {
	return filepath.Join(d.Config.WorkspacesDir, "workspaces.json")
}

// readRegistry reads the list of workspaces. A corrupt list is renamed and rebuilt from the
// previous list and from what is below the default directory. The list is then usable, and the
// error reports the damage.
func (d *Daemon) readRegistry() (store.Registry, error) {
	reg := store.Registry{Version: 1, Workspaces: map[string]string{}}
	if err := store.Sweep(d.registryFile()); err != nil {
		d.Log.Warn("temporary file of a crash not removed", "path", d.registryFile(), "err", err)
	}
	_, err := store.ReadKept(d.registryFile(), &reg, d.started, func(r store.Registry) error {
		if r.Workspaces == nil {
			return errors.New("it has no workspaces")
		}
		return nil
	})
	if errors.Is(err, os.ErrNotExist) {
		return reg, nil
	}
	if !errors.Is(err, store.ErrCorrupt) {
		return reg, err
	}
	dirs, gerr := filepath.Glob(filepath.Join(d.Config.WorkspacesDir, "*", ".polis"))
	for _, p := range dirs {
		reg.Workspaces[filepath.Base(filepath.Dir(p))] = filepath.Dir(p)
	}
	err = api.Errorf(api.CodeStateCorrupt, "list of workspaces: %w", err).WithHint("it was made anew with %d workspaces; polisctl up --repo PATH WORKSPACE adds one that is missing", len(reg.Workspaces))
	d.warn(string(api.CodeStateCorrupt) + ": " + withHint(err))
	return reg, errors.Join(err, gerr, d.writeRegistry(reg))
}

func (d *Daemon) writeRegistry(reg store.Registry) error {
	if err := store.WriteKept(d.registryFile(), reg); err != nil {
		return api.Errorf(api.CodeStateNotSaved, "list of workspaces: %w", err).WithHint("free space in %s, or make it writable", d.Config.WorkspacesDir)
	}
	return nil
}

// readState reads the state of a workspace. A corrupt state file is renamed and the previous one is
// used; worktrees and living shims supply the rest. On an error the file can be intact but
// unreadable: the caller must not draw conclusions from it, and must not overwrite it.
func (d *Daemon) readState(name string, root layout.Workspace, rep *agent.Report) (store.State, error) {
	var st store.State
	if err := store.Sweep(root.State()); err != nil {
		d.Log.Warn("temporary file of a crash not removed", "path", root.State(), "err", err)
	}
	restored, err := store.ReadKept(root.State(), &st, d.started, func(s store.State) error {
		if s.Version < 1 {
			return errors.New("it has no version")
		}
		return nil
	})
	switch {
	case errors.Is(err, os.ErrNotExist):
		return st, nil
	case errors.Is(err, store.ErrCorrupt):
		d.Log.Error("state of a workspace", "workspace", name, "code", api.CodeStateCorrupt, "err", err, "restored", restored)
		text := fmt.Sprintf("%s: workspace %s: %v; made anew from its worktrees and shims", api.CodeStateCorrupt, name, err)
		if restored {
			text += " and the state before"
		}
		d.warn(text)
		rep.Errors = append(rep.Errors, text)
		for i := range st.Agents {
			// The lost state knew whether the agent became complete, or was stopped since. An
			// agent with a shim is adopted. Others are neither started nor removed as incomplete.
			if st.Agents[i].Status != api.StatusError {
				st.Agents[i].Status, st.Agents[i].StatusReason = api.StatusStopped, ""
			}
		}
		return st, nil
	case errors.Is(err, store.ErrNewer):
		return st, api.Errorf(api.CodeStateCorrupt, "the state of workspace %s: %w", name, err).WithHint("install that polisd again")
	case err != nil:
		return st, api.Errorf(api.CodeInternal, "read the state of workspace %s: %w", name, err)
	case st.Version > store.StateVersion:
		return st, api.Errorf(api.CodeStateCorrupt, "the state of workspace %s is of version %d, this polisd knows %d", name, st.Version, store.StateVersion).
			WithHint("it was written by a newer polisd: install that again")
	}
	return st, nil
}

// save writes state.json.
func (w *workspace) save(kept []store.Agent, removed []store.Removed, locks []api.Lock) error {
	w.d.mu.Lock()
	st := w.state
	w.d.mu.Unlock()
	st.Version, st.LastModified, st.IsolationMode = store.StateVersion, time.Now().UTC(), w.d.isolationMode()
	st.Agents, st.Locks, st.Removed, st.Queue = kept, locks, removed, w.queue.Entries()
	st.Signals, st.Races = w.flow.Signals(), w.d.races.List(w.agents.Name)
	if st.Agents == nil {
		st.Agents = []store.Agent{}
	}
	st.PortAllocations.Mappings = []api.PortMapping{}
	lo, _ := w.d.Config.PortRange()
	st.PortAllocations.NextPort = lo
	for _, a := range kept {
		for _, p := range a.PortMappings {
			st.PortAllocations.Mappings = append(st.PortAllocations.Mappings, api.PortMapping{Agent: a.Name, Internal: p.Internal, External: p.External, Protocol: p.Protocol, Bind: cmp.Or(p.Bind, w.d.Config.Network.Bind), Auto: p.Auto})
			st.PortAllocations.NextPort = max(st.PortAllocations.NextPort, p.External+1)
		}
	}
	if err := store.WriteKept(w.agents.Root.State(), st); err != nil {
		return err
	}
	// The previous state file can grant more rights than this one. The state is written twice, so
	// that the file that replaces a damaged one grants these rights too.
	rights, err := store.Rights(kept)
	if err != nil || rights == w.rights {
		return err
	}
	if err := store.WriteKept(w.agents.Root.State(), st); err != nil {
		return err
	}
	w.rights = rights
	return nil
}
