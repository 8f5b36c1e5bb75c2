package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestAnAgentThatTheMachineHasNoRoomForIsRefused(t *testing.T) {
	d := startDaemon(t, options{config: "[limits.total]\nmemory_mb = 1024\n[admission]\novercommit = 1.5\n"})
	d.up()
	d.add("alice", "--memory", "1000")
	d.add("bob", "--memory", "500")
	e := d.refused(api.CodeHostOvercommitted, "agents", "add", "carol", "--base", "custom", "--memory", "100")
	require.Contains(t, e.Message, "agent carol may use 100 MB of memory, the 2 agents that live 1500: together more than 1536 MB (limits.total.memory_mb, times 1.5)")
	_, ok := d.agent("carol")
	require.False(t, ok, "nothing was left of it")
	d.add("carol", "--memory", "100", "--force")
	d.must("agents", "stop", "carol")
	d.refused(api.CodeHostOvercommitted, "agents", "start", "carol")
	d.must("agents", "start", "carol", "--force")
	d.stop()
	d.start() // an agent that ran before is not refused
	a, _ := d.agent("carol")
	require.Equal(t, api.StatusIdle, a.Status)
}
