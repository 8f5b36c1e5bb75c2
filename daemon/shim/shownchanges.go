package shim

import (
	"sync"

	"golang.org/x/sys/unix"

	"polis/fusefs"
)

// maxAnnounced bounds the paths whose change below the view is shown to programs that watch the tree.
const maxAnnounced = 20000

// announced are the paths that polisd is about to change below the view, as they were when it said so.
type announced struct {
	mu    sync.Mutex
	paths map[string]fusefs.Seen
	lost  bool // there are more, which are not known
}

// announceUnknown notes that polisd changes paths that it does not name.
func (s *Shim) announceUnknown() {
	s.announced.mu.Lock()
	s.announced.lost = true
	s.announced.mu.Unlock()
}

// announce notes what is at a path before polisd changes it. Files of an agent whose overlay is above its view change
// through the overlay only.
func (s *Shim) announce(path string) {
	if s.Spec.Lower != "" {
		return
	}
	a := &s.announced
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, noted := a.paths[path]; noted || len(a.paths) == maxAnnounced {
		return
	}
	if a.paths == nil {
		a.paths = map[string]fusefs.Seen{}
	}
	a.paths[path] = fusefs.See(int(s.views.content.Fd()), path)
}

// showAnnounced shows what has become of them since.
func (s *Shim) showAnnounced() {
	a := &s.announced
	a.mu.Lock()
	paths, lost := a.paths, a.lost
	a.paths, a.lost = nil, false
	a.mu.Unlock()
	var changes []fusefs.Change
	for path, was := range paths {
		if c, ok := was.Became(path, fusefs.See(int(s.views.content.Fd()), path)); ok {
			changes = append(changes, c)
		}
	}
	if lost { // programs that watch the root directory get IN_ATTRIB
		changes = append(changes, fusefs.Change{Was: unix.S_IFDIR, Is: unix.S_IFDIR})
	}
	s.views.tree.ShowChanges(changes)
}
