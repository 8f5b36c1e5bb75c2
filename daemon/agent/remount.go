package agent

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// remountTime bounds one request to mount views again.
const remountTime = 5 * time.Second

// Mounted are the agents whose views are expected on the host, with whether they have a view of a git directory: those
// whose shims serve them.
func (m *Manager) Mounted() map[string]Place {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[string]Place{}
	for name, a := range m.agents {
		switch a.Kept.Status {
		case api.StatusIdle, api.StatusRunning:
			out[name] = Place{Worktree: a.Worktree(), Git: a.WS.Git}
		}
	}
	return out
}

// Place is where views of an agent are on the host.
type Place struct {
	Worktree string
	Git      bool
}

// Remount has an agent's shim mount its views again where another program has unmounted them on the host, and returns
// the mount points. Without a shim there is no view.
func (m *Manager) Remount(ctx context.Context, name string) ([]string, error) {
	a, err := m.lookup(name)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, remountTime)
	defer cancel()
	if alive, err := m.Shims.Alive(ctx, a); err != nil || !alive {
		return nil, err
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return nil, err
	}
	if v, err := wire.Agree(st); err != nil {
		return nil, api.Errorf(api.CodeShimUnavailable, "%w", err)
	} else if v < wire.RemountVersion {
		return nil, api.Errorf(api.CodeShimUnavailable, "the shim of %s is of an older polis, which cannot mount its view again", name)
	}
	done, err := sh.Remount(ctx)
	return done.Paths, err
}
