package agent

import (
	"slices"
	"sync"
	"time"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api/setting"
	"polis/daemon/config"
)

// linksFor is how long the links of a project are kept: lists of agents need them for each agent.
const linksFor = 2 * time.Second

// foundLinks are the links of a project that were found last.
type foundLinks struct {
	mu    sync.Mutex
	at    time.Time
	links []outlinks.Link
}

// Links returns the links of a workspace's project that lead out of sandboxes, whatever base types mount.
func (m *Manager) Links(ws *Workspace, box config.Sandbox) ([]outlinks.Link, error) {
	ws.links.mu.Lock()
	defer ws.links.mu.Unlock()
	if now := m.Now(); now.Sub(ws.links.at) < linksFor && !now.Before(ws.links.at) {
		// What was mounted since leads to what agents have.
		return slices.DeleteFunc(slices.Clone(ws.links.links), func(l outlinks.Link) bool { return box.Has(l.Target, nil) }), nil
	}
	dir, err := ws.Recorded().OpenDir()
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	links, err := outlinks.Find(dir, ws.Project, func(p string) bool { return box.Has(p, nil) })
	if err != nil {
		return nil, err
	}
	ws.links.at, ws.links.links = m.Now(), links
	return links, nil
}

// linksOf is Links for an agent, whose base type may mount more.
func (m *Manager) linksOf(a *Agent, box config.Sandbox, mounts []setting.Mount) []outlinks.Link {
	all, err := m.Links(a.WS, box)
	if err != nil {
		m.Log.Debug("links of the project not read", "agent", a.Name(), "err", err) // an exchanged project is reported elsewhere
	}
	var out []outlinks.Link
	for _, l := range all {
		if !box.Has(l.Target, mounts) {
			out = append(out, l)
		}
	}
	return out
}
