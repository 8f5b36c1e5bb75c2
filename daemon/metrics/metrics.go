package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"polis/daemon/api"
)

// Locks are counters of the lock table.
type Locks struct {
	Leases    int
	Conflicts uint64
}

func up(s api.Status) bool { return s == api.StatusIdle || s == api.StatusRunning }

// Summary returns the line for systemctl status. lost are the names of the missing isolation.
func Summary(workspaces int, agents []api.Status, leases int, lost []string) string {
	n := 0
	for _, s := range agents {
		if up(s) {
			n++
		}
	}
	degraded := ""
	if len(lost) > 0 {
		degraded = "isolation DEGRADED (no " + strings.Join(lost, ", ") + "), "
	}
	return degraded + fmt.Sprintf("%s, %s (%d up), %s", api.Count(workspaces, "workspace"), api.Count(len(agents), "agent"), n, api.Count(leases, "lease"))
}

// Text returns the counters of agents, by name, and of the lock table as Prometheus text.
func Text(as []api.Agent, l Locks) string {
	as = slices.SortedFunc(slices.Values(as), func(a, b api.Agent) int { return cmp.Compare(a.Name, b.Name) })
	var sb strings.Builder
	fmt.Fprintf(&sb, "# HELP polis_leases Leases held now.\n# TYPE polis_leases gauge\npolis_leases %d\n", l.Leases)
	fmt.Fprintf(&sb, "# HELP polis_lock_conflicts_total Refused lease requests.\n# TYPE polis_lock_conflicts_total counter\npolis_lock_conflicts_total %d\n", l.Conflicts)
	for _, m := range []struct {
		name, help, typ string
		value           func(*api.Agent) (int64, bool)
	}{
		{"polis_agent_up", "Whether the agent has a sandbox now.", "gauge", func(a *api.Agent) (int64, bool) {
			if up(a.Status) {
				return 1, true
			}
			return 0, true
		}},
		{"polis_agent_memory_bytes", "Memory of the agent's sandbox.", "gauge", func(a *api.Agent) (int64, bool) { return a.MemoryBytes, a.Counters != nil }},
		{"polis_agent_reads_total", "Gated reads.", "counter", counter(func(c *api.Counters) int64 { return c.ReadCount })},
		{"polis_agent_writes_total", "Gated writes.", "counter", counter(func(c *api.Counters) int64 { return c.WriteCount })},
		{"polis_agent_reads_denied_total", "Refused reads.", "counter", counter(func(c *api.Counters) int64 { return c.ReadDenied })},
		{"polis_agent_writes_denied_total", "Refused writes.", "counter", counter(func(c *api.Counters) int64 { return c.WriteDenied })},
		{"polis_agent_read_latency_ns", "Moving average of a gated read.", "gauge", counter(func(c *api.Counters) int64 { return c.AvgReadLatency })},
		{"polis_agent_write_latency_ns", "Moving average of a gated write.", "gauge", counter(func(c *api.Counters) int64 { return c.AvgWriteLatency })},
	} {
		fmt.Fprintf(&sb, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.typ)
		for i := range as {
			if v, ok := m.value(&as[i]); ok {
				fmt.Fprintf(&sb, "%s{agent=%q,workspace=%q} %d\n", m.name, as[i].Name, as[i].Workspace, v)
			}
		}
	}
	return sb.String()
}

func counter(f func(*api.Counters) int64) func(*api.Agent) (int64, bool) {
	return func(a *api.Agent) (int64, bool) {
		if a.Counters == nil {
			return 0, false
		}
		return f(a.Counters), true
	}
}
