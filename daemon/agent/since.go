package agent

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/store"
)

// sinceFile is beside the logs of an agent, and has since when it is Stopped or in Error.
const sinceFile = "status.json"

// statusSince is the content of sinceFile.
type statusSince struct {
	Status api.Status `json:"status"`
	Since  time.Time  `json:"since"`
}

// rests reports whether an agent can stay in a state for days, so that people want to know since when.
func rests(s api.Status) bool { return s == api.StatusStopped || s == api.StatusError }

// saveSince saves when the state of an agent began. What fails is logged: only a text depends on it.
func (m *Manager) saveSince(a *Agent) {
	k := a.Copy()
	if !rests(k.Status) {
		return
	}
	path := filepath.Join(a.WS.Root.Logs(a.Name()), sinceFile)
	if err := store.WriteSummed(path, statusSince{k.Status, k.StatusSince}); err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Log.Warn("since when an agent is in its state is not saved", "agent", a.Name(), "err", err)
	}
}

// loadSince returns when the state of an agent began that was loaded; zero if that is not known.
func (m *Manager) loadSince(ws *Workspace, k store.Agent) time.Time {
	var was statusSince
	if !rests(k.Status) {
		return time.Time{}
	}
	err := store.ReadSummed(filepath.Join(ws.Root.Logs(k.Name), sinceFile), &was)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		m.Log.Warn("since when an agent is in its state is not known", "agent", k.Name, "err", err)
	}
	if err != nil || was.Status != k.Status || was.Since.After(m.Now()) {
		return time.Time{}
	}
	return was.Since
}
