package agent

import (
	"context"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// gateTime bounds how long a shim may take to write its rules.
const gateTime = 10 * time.Second

// RestoreGate has an agent's shim write the rules of its network again, after another program has removed them.
// Without a shim nothing is to be written. A shim of an earlier version does not know how: then the gate is opened
// as its settings say, but for names that were resolved already, refusals are not logged, and connections not limited.
func (m *Manager) RestoreGate(ctx context.Context, name string) error {
	a, err := m.lookup(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, gateTime)
	defer cancel()
	if alive, err := m.Shims.Alive(ctx, a); err != nil || !alive {
		return err
	}
	sh := m.Shims.Dial(name)
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return err
	}
	if v, err := wire.Agree(st); err != nil {
		return api.Errorf(api.CodeShimUnavailable, "%w", err)
	} else if v >= wire.GateVersion {
		return sh.RestoreGate(ctx)
	}
	m.Log.Warn("rules of an agent's network restored in part: its shim is of an older polis; start the agent again", "agent", name)
	return m.openGate(ctx, a, m.Shims.Settings(a))
}
