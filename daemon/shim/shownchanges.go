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
	over  int  // how many were not noted because there are too many
}

// add notes a path. see is called for one that is not noted yet.
func (a *announced) add(path string, see func(path string) fusefs.Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, noted := a.paths[path]; noted {
		return
	}
	if len(a.paths) == maxAnnounced {
		a.lost = true
		a.over++
		return
	}
	if a.paths == nil {
		a.paths = map[string]fusefs.Seen{}
	}
	a.paths[path] = see(path)
}

// take returns what was noted since the last call.
func (a *announced) take() (paths map[string]fusefs.Seen, lost bool, over int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	paths, lost, over = a.paths, a.lost, a.over
	a.paths, a.lost, a.over = nil, false, 0
	return paths, lost, over
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
	s.announced.add(path, s.seen)
}

// seen is what is at a path of the agent's tree now.
func (s *Shim) seen(path string) fusefs.Seen { return fusefs.See(int(s.views.content.Fd()), path) }

// showAnnounced shows what has become of them since.
func (s *Shim) showAnnounced() {
	paths, lost, over := s.announced.take()
	var changes []fusefs.Change
	for path, was := range paths {
		if c, ok := was.Became(path, s.seen(path)); ok {
			changes = append(changes, c)
		}
	}
	if over > 0 {
		s.Log.Warn("programs that watch files are not notified of all changes, except in the root directory", "op", "show-changes", "changes", over)
	}
	if lost { // programs that watch the root directory get IN_ATTRIB
		changes = append(changes, fusefs.Change{Was: unix.S_IFDIR, Is: unix.S_IFDIR})
	}
	s.views.tree.ShowChanges(changes)
}
