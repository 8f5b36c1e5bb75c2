package agent

import (
	"context"
	"errors"
	"sync"
)

// StopAll stops every shim and keeps the states, so that the next start restores what was up.
func (m *Manager) StopAll(ctx context.Context) error {
	m.mu.Lock()
	as := make([]*Agent, 0, len(m.agents))
	for _, a := range m.agents {
		as = append(as, a)
	}
	m.mu.Unlock()
	errs := make([]error, len(as))
	var wg sync.WaitGroup
	for i, a := range as {
		wg.Go(func() {
			if errs[i] = a.op.Acquire(ctx); errs[i] != nil {
				return
			}
			defer a.op.Unlock()
			errs[i] = m.takeDown(ctx, a)
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}
