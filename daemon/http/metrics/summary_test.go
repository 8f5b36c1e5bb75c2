package metrics

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTheSummaryNamesWhatIsMissing(t *testing.T) {
	require.Equal(t, "0 workspaces, 0 agents (0 up), 0 leases", Summary(0, nil, 0, nil))
	require.Equal(t, "isolation DEGRADED (no pid, ipc), 1 workspace, 3 agents (2 up), 1 lease",
		Summary(1, []api.Status{api.StatusIdle, api.StatusError, api.StatusRunning}, 1, []string{"pid", "ipc"}))
}
