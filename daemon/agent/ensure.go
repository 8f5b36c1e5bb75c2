package agent

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// ensureResources ensures all resources of an agent at the same time: each of them mostly waits, for
// git or for the kernel. If one fails, the others are cancelled, and its error is returned.
func (m *Manager) ensureResources(ctx context.Context, a *Agent) error {
	all, actx := errgroup.WithContext(ctx)
	for _, r := range m.Resources {
		all.Go(func() error { return r.Ensure(actx, a) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, r := range m.Resources {
		m.crash("up:" + r.Name())
	}
	return nil
}
