package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/config"
	"polis/daemon/store"
)

// egressText formats an agent's own egress.
func egressText(own []string) string {
	if own == nil {
		return "as configured"
	}
	return strings.Join(own, ",")
}

// hostPortsText formats an agent's own host ports.
func hostPortsText(own []uint16) string {
	switch {
	case own == nil:
		return "as configured"
	case len(own) == 0:
		return "none"
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(own), " ", ","), "[]")
}

// cutOff returns a warning if an agent cannot reach the model that its program works with. A host
// port can lead to a model as well.
func cutOff(v api.Agent, t config.BaseType, r config.Reach) []string {
	if len(t.Hosts) == 0 || len(r.HostPorts) > 0 || !slices.Equal(r.Policy.Entries(), []string{"none"}) {
		return nil
	}
	return []string{fmt.Sprintf("agent %[1]s reaches nothing, and %[2]s cannot work without its model: polisctl agents set %[1]s --egress +%[3]s allows what the type needs (%[4]s), and no more",
		v.Name, t.Program, t.Hosts[0], strings.Join(t.Hosts, ", "))}
}

// ownReach returns what an agent's own settings allow it to reach.
func ownReach(k store.Agent) config.Own {
	return config.Own{Egress: k.Egress, HostPorts: k.HostPorts}
}

// give sends settings to a shim. It applies itself those that an older shim does not support.
func (m *Manager) give(ctx context.Context, sh Shim, a *Agent, st wire.Status, req wire.SettingsRequest) error {
	for _, l := range []struct {
		name  string
		since int
		value *int64
	}{{"disk_mb", wire.DiskVersion, &req.DiskBytes}, {"disk_files", wire.FilesVersion, &req.DiskFiles}, {"connections", wire.ConnectionsVersion, &req.Connections}} {
		if st.Version < l.since && *l.value > 0 {
			m.Log.Warn("limit not applied until the agent's next start: its shim is of an older polis", "agent", a.Name(), "limit", l.name)
			*l.value = 0
		}
	}
	if st.Version < wire.HostPortsVersion && len(req.HostPorts) > 0 {
		m.Log.Warn("host ports are not open until the agent's next start: its shim is of an older polis", "agent", a.Name())
		req.HostPorts = nil
	}
	if st.Version < wire.EnvVersion {
		req.Vars = nil // a task gets them with its command
	}
	if st.Version < wire.ApprovalsVersion {
		req.Tools, req.Remembered = api.ToolRules{}, nil // its programs cannot ask
	}
	if st.Version < wire.MemoryAskVersion {
		req.MemoryAsk = nil // it keeps its limit until its next start
	}
	if st.Version < wire.GatesVersion {
		req.Egress = config.WithoutAsk(a.Name(), req.Egress, m.Log)
	}
	if st.Version < wire.BreakersVersion {
		req.Breakers = api.Breakers{} // its shim freezes nothing
	}
	if st.Version < wire.PolicyRecordVersion {
		req.Record = false // its shim enforces all rules
	}
	if st.Version >= wire.EgressVersion {
		return sh.Set(ctx, req)
	}
	if err := m.openGate(ctx, a, req.Settings); err != nil {
		return err
	}
	req.Egress, req.Private = nil, nil
	return sh.Set(ctx, req)
}

// openGate opens the gate of an agent whose shim does not support gates. Names are not resolved
// for it: only the addresses of a list take effect.
func (m *Manager) openGate(ctx context.Context, a *Agent, v wire.Settings) error {
	if m.Gate == nil {
		return nil
	}
	if err := m.Gate(ctx, a, v.Egress, v.Private); err != nil {
		return api.Errorf(api.CodeNetNSFailed, "egress of agent %s: %w", a.Name(), err)
	}
	return nil
}
