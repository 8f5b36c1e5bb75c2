package isolation

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestMissingIsolationIsReported(t *testing.T) {
	loss := func(name string) api.Loss {
		return api.Loss{Capability: name, Code: api.CodeNamespaceFailed, Found: "EPERM", Cost: "a cost"}
	}
	require.Empty(t, Warnings(nil, false))
	require.Equal(t, "full", Mode(nil))
	network, mount := []api.Loss{loss(Network), loss(IPC)}, []api.Loss{loss(Mount)}
	require.Equal(t, "degraded", Mode(network))
	require.Equal(t, []string{Network, IPC}, Names(network))
	for _, c := range []struct {
		lost  []api.Loss
		allow bool
		first string
	}{
		{network, false, `agents are refused; sandbox.degraded = "allow" adds them without: network, ipc`},
		{network, true, "agents go without: network, ipc"},
		{mount, false, "agents are refused: mount"},
		{mount, true, "agents are refused: mount"},
	} {
		got := Warnings(c.lost, c.allow)
		require.Len(t, got, 1+len(c.lost))
		require.Equal(t, string(api.CodeSysboxUnavailable)+": isolation is degraded, "+c.first, got[0])
		require.Contains(t, got[1], "isolation: a cost (EPERM)")
	}
}
