package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/host/isolation"
	"polis/daemon/host/walk"
	"polis/daemon/store"
	"polis/daemon/store/layout"
)

// readRegistry reads the list of workspaces. On store.ErrCorrupt the list was rebuilt and is usable.
func (d *Daemon) readRegistry() (store.Registry, error) {
	reg, err := store.LoadRegistry(d.Config.WorkspacesDir, d.started, d.Log)
	if errors.Is(err, store.ErrCorrupt) {
		d.warn(string(api.CodeStateCorrupt) + ": " + withHint(err))
	}
	return reg, err
}

func (d *Daemon) writeRegistry(reg store.Registry) error {
	return store.SaveRegistry(d.Config.WorkspacesDir, reg)
}

// readState reads the state of a workspace, and reports what was lost.
func (d *Daemon) readState(name string, root layout.Workspace, rep *agent.Report) (store.State, error) {
	dir, _, err := walk.Placed(root.Dir()) // it can lie in a directory of a user, who can put another there
	if errors.Is(err, os.ErrNotExist) {
		return store.State{}, nil
	}
	if err != nil {
		return store.State{}, walk.Refused("the workspace "+name, err)
	}
	defer dir.Close()
	st, lost, err := store.LoadState(name, walk.Path(dir, filepath.Base(root.State())), d.started, d.Log)
	lost, err = strings.ReplaceAll(lost, walk.Path(dir, ""), root.Dir()+"/"), walk.Named(err, dir, root.Dir())
	if lost != "" {
		d.warn(lost)
		rep.Errors = append(rep.Errors, lost)
	}
	return st, err
}

// loaded reports whether a workspace is open.
func (d *Daemon) loaded(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.workspaces[name] != nil
}

// save writes state.json.
func (w *workspace) save(kept []store.Agent, removed []store.Removed, locks []api.Lock) error {
	w.d.mu.Lock()
	st := w.state
	w.d.mu.Unlock()
	lo, _ := w.d.Config.PortRange()
	st.IsolationMode, st.Agents, st.Locks, st.Removed, st.Queue = isolation.Mode(w.d.shims.Missing()), kept, locks, removed, w.queue.Entries()
	st.Signals, st.Races = w.flow.Signals(), w.d.races.List(w.agents.Name)
	st.PortAllocations = store.Allocations(kept, lo, w.d.Config.Network.Bind)
	return w.git.Below(w.root.State(), func(path string) error { return w.file.Save(path, st, time.Now()) })
}
