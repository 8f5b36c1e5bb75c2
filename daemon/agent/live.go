package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/store/counters"
)

// live returns an agent for the API: its stored state and what its shim reports.
func (m *Manager) live(ctx context.Context, a *Agent) api.Agent {
	m.mu.Lock()
	c := *m.cfgLive
	v, own, up := a.view(c.Network.Bind), a.Kept.Limits, a.up
	reach, err := c.Reach(a.Kept.Role, a.Type, ownReach(a.Kept))
	env, model := c.Env(v.Name, v.Role, a.Kept.Env), c.RoleModel(v.Role, v.BaseType)
	m.mu.Unlock()
	v.TrashedWorktree = trashedWorktree(v.TrashedWorktree)
	v.Task = m.lastTask(a)
	m.nameMaps(v.PortMappings)
	if err != nil {
		m.Log.Debug("egress cannot be read", "agent", v.Name, "err", err) // and so allows nothing
	}
	v.Egress, v.HostPorts = reach.Policy.Entries(), reach.HostPorts
	v.Env = slices.Sorted(maps.Keys(env))
	v.Warnings = noModel(v, a.Type, model)
	if len(c.TypeServices(v.Role, a.Type)) == 0 { // else the gateway has the model, and the key
		v.Warnings = slices.Concat(cutOff(v, a.Type, reach), v.Warnings, noLogin(v, a.Type, a.WS.Owner))
	}
	v.Warnings = append(v.Warnings, hooksWarning(a, c.GitRules(v.Name, v.Role, a.Type).Hooks)...)
	v.Warnings = append(v.Warnings, trashedWarning(v)...)
	v.Warnings = append(v.Warnings, blockedWarning(m.blocked(a, time.Time{}))...)
	v.Warnings = append(v.Warnings, outlinks.Texts(m.linksOf(a, c.Sandbox, a.Type.Mounts))...)
	l := c.Limits.Agent(own)
	m.isolation(&v)
	v.PidsLimit, v.CPUWeight, v.CPUPercent, v.IOWeight = l.Pids, l.CPUWeight, l.CPUPercent, l.IOWeight
	v.DiskLimitMB, v.DiskLimitFiles, v.ConnectionsLimit = l.DiskMB, l.DiskFiles, l.Connections
	kept := func() {
		if r, ok := counters.Read(a.WS.Root.Logs(v.Name), v.CreatedAt); ok {
			v.Counters, v.Times = &r.Counters, &r.Times
		}
	}
	if !up {
		kept()
		return v
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	if st, err := sh.Status(ctx); err == nil {
		v.Counters, v.Times = &st.Counters, st.Times
		v.MemoryBytes, v.CPUMicros, v.PID = st.Memory, st.CPUMicros, st.MainPID
		v.LimitHits, v.ShimPID, v.Waiting = st.LimitHits, st.PID, st.Waiting
		if st.Audit == wire.AuditFull { // else only a policy is learned
			v.Audit = st.Audit
		}
		if left, err := m.leftoversOf(ctx, sh, st); err == nil {
			v.Leftovers = left
		}
	} else {
		kept()
	}
	return v
}
