package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

// leftoverTime bounds a question for what is left running.
const leftoverTime = 5 * time.Second

// Leftovers returns what the agent's last command left running, and ends it first if
// so asked.
func (m *Manager) Leftovers(ctx context.Context, name string, end bool) (api.Leftovers, error) {
	a, err := m.upShim(name)
	if err != nil {
		return api.Leftovers{}, err
	}
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	st, err := sh.Status(ctx)
	if err != nil {
		return api.Leftovers{}, err
	}
	if v, err := wire.Agree(st); err != nil || v < wire.LeftoversVersion {
		return api.Leftovers{}, api.Errorf(api.CodeBadState, "the shim of agent %s is of an older polis, which does not track what is left running", name).
			WithHint("polisctl agents stop %s ends it all, polisctl agents start %s starts it again", name, name)
	}
	if st.Running && end {
		return api.Leftovers{}, api.Errorf(api.CodeBadState, "agent %s works: what it uses is not known to be left over", name).
			WithHint("when its command has ended")
	}
	return sh.Leftovers(ctx, end)
}

// leftRunning applies the agent's role to what a command left running, and removes the automatic
// maps of its ports.
func (m *Manager) leftRunning(a *Agent) {
	m.mu.Lock()
	role, own := a.Kept.Role, a.Kept.Leftovers
	m.mu.Unlock()
	c := m.config()
	what := c.Leftovers(role, own)
	ctx, cancel := context.WithTimeout(m.ctx, 2*leftoverTime+4*time.Duration(c.Limits.StopGrace))
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	left, err := sh.Leftovers(ctx, false)
	if err != nil {
		m.Log.Warn("processes left running not read", "agent", a.Name(), "err", err)
		return
	}
	if len(left.Leftovers) == 0 {
		return
	}
	text := "it keeps running: polisctl agents leftovers --end " + a.Name() + " ends it"
	switch what {
	case api.LeftoversEnd:
		whose := "its role"
		if own != "" {
			whose = "the agent"
		}
		text = "it was ended, as leftovers = \"end\" of " + whose + " says"
		if res, err := sh.Leftovers(ctx, true); err != nil || len(res.Leftovers) > 0 {
			m.Log.Warn("processes left running not ended", "agent", a.Name(), "left", len(res.Leftovers), "err", err)
			text = "it could not be ended: polisctl agents stop " + a.Name() + " does"
		}
	case api.LeftoversAsk:
		text = "is it to stay? polisctl agents leftovers --end " + a.Name() + " ends it; nothing need be done to keep it"
	}
	for _, l := range left.Leftovers {
		for _, p := range l.Ports {
			m.unmap(ctx, sh, a, p.Protocol, p.Port)
		}
	}
	m.Events.Publish(api.Event{Type: api.EventLeftovers, Agent: a.Name(), Data: map[string]any{"leftovers": left.Leftovers, "do": what},
		Message: fmt.Sprintf("the command of agent %s left running: %s; %s", a.Name(), leftoverText(a.Name(), left.Leftovers), text)})
}

// leftoverText names processes with their memory and ports.
func leftoverText(agent string, left []api.Leftover) string {
	const shown = 3
	var out []string
	for _, l := range left[:min(len(left), shown)] {
		text := fmt.Sprintf("%s (pid %d, %d MB", l.Program, l.PID, l.MemoryBytes>>20)
		for _, p := range l.Ports {
			text += fmt.Sprintf(", %s port %d", p.Protocol, p.Port)
		}
		out = append(out, text+")")
	}
	if n := len(left) - shown; n > 0 {
		out = append(out, fmt.Sprintf("%d more (polisctl agents leftovers %s)", n, agent))
	}
	return strings.Join(out, ", ")
}

// isLeftover reports whether a port belongs to what a task left running: such a port is mapped by
// ports add only. A command of the agent's own that ends, such as a script that starts a server,
// is no task: its server is wanted.
func (m *Manager) isLeftover(ctx context.Context, sh Shim, k PortKey) bool {
	ctx, cancel := context.WithTimeout(ctx, leftoverTime)
	defer cancel()
	st, err := sh.Status(ctx)
	if err != nil {
		return false
	}
	if !st.LeftRunning || st.Task == "" {
		return false
	}
	left, err := sh.Leftovers(ctx, false)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(left.Leftovers, func(l api.Leftover) bool {
		return slices.Contains(l.Ports, api.LeftoverPort{Port: k.Internal, Protocol: k.Protocol})
	})
}

// leftoversOf returns what is left running, for the shim of a status.
func (m *Manager) leftoversOf(ctx context.Context, sh Shim, st wire.Status) ([]api.Leftover, error) {
	if !st.LeftRunning {
		return nil, nil
	}
	left, err := sh.Leftovers(ctx, false)
	return left.Leftovers, err
}
