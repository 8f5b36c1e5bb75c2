package shim

import (
	"net/http"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// handleRemount mounts the views again where another program has unmounted them on the host. The sandbox keeps its own
// mounts of them.
func (s *Shim) handleRemount(w http.ResponseWriter, _ *http.Request) error {
	out := wire.Remounted{Paths: []string{}}
	v := s.views
	v.mu.Lock()
	tree, git := v.tree, v.git
	v.mu.Unlock()
	for _, m := range []struct {
		fs interface{ Again() (bool, error) }
		is bool
		at string
	}{{tree, tree != nil, s.Spec.Mountpoint}, {git, git != nil, gitMount(s.Spec)}} {
		if !m.is {
			continue
		}
		again, err := m.fs.Again()
		if err != nil {
			return s.named(api.Errorf(api.CodeShimUnavailable, "view of agent %s: %w", s.Spec.Agent, err))
		}
		if again {
			s.Log.Warn("view mounted again: another program had unmounted it", "op", "remount", "path", m.at)
			out.Paths = append(out.Paths, m.at)
		}
	}
	return writeJSON(w, out)
}
