package agent

import (
	"context"
	"time"

	"polis/daemon/api/wire"
)

// screenTime bounds the wait for a screen. After that the log is used.
const screenTime = 2 * time.Second

// Screen returns the last lines that the terminal of an agent's own program shows. It returns
// false if the program has no terminal, or if more lines are wanted than it keeps: then they are
// in the log.
func (m *Manager) Screen(ctx context.Context, name string, lines int) (wire.Screen, bool) {
	a, err := m.lookup(name)
	if err != nil {
		return wire.Screen{}, false
	}
	m.mu.Lock()
	up := a.up && !a.foreign
	m.mu.Unlock()
	if !up {
		return wire.Screen{}, false
	}
	ctx, cancel := context.WithTimeout(ctx, screenTime)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return wire.Screen{}, false
	}
	if v, err := wire.Agree(st); err != nil || v < wire.ScreenVersion {
		return wire.Screen{}, false
	}
	sc, err := sh.Screen(ctx, lines)
	return sc, err == nil && sc.Terminal && sc.All
}
