package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheTextHasARowForEachAgentThatHasTheCounter(t *testing.T) {
	text := Text([]api.Agent{
		{Name: "b", Workspace: "w", Status: api.StatusStopped},
		{Name: "a", Workspace: "w", Status: api.StatusRunning, MemoryBytes: 7, Counters: &api.Counters{ReadCount: 3, WriteDenied: 4}},
	}, Locks{Leases: 2, Conflicts: 5})
	for _, line := range []string{
		"# TYPE polis_leases gauge\npolis_leases 2\n", "polis_lock_conflicts_total 5\n",
		"# TYPE polis_agent_up gauge\npolis_agent_up{agent=\"a\",workspace=\"w\"} 1\npolis_agent_up{agent=\"b\",workspace=\"w\"} 0\n",
		"polis_agent_memory_bytes{agent=\"a\",workspace=\"w\"} 7\n", "polis_agent_reads_total{agent=\"a\",workspace=\"w\"} 3\n",
		"polis_agent_writes_denied_total{agent=\"a\",workspace=\"w\"} 4\n",
	} {
		require.Contains(t, text, line)
	}
	require.NotContains(t, text, "reads_total{agent=\"b\"", "a stopped agent has no counters")
}

func TestTheSummaryNamesWhatIsMissing(t *testing.T) {
	require.Equal(t, "0 workspaces, 0 agents (0 up), 0 leases", Summary(0, nil, 0, nil))
	require.Equal(t, "isolation DEGRADED (no pid, ipc), 1 workspace, 3 agents (2 up), 1 lease",
		Summary(1, []api.Status{api.StatusIdle, api.StatusError, api.StatusRunning}, 1, []string{"pid", "ipc"}))
}
