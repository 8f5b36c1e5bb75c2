package environment

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/store"
	"polis/internal/nonzero"
)

// everySetting is an agent for which each setting has a value.
func everySetting(t *testing.T) (*Builder, *agent.Agent) {
	b, a := newBuilder(t)
	c := config.Default()
	c.Limits.MemoryAsk = config.MemoryAsk{At: 80, StepMB: 100, MaxMB: 4000}
	c.Network.AllowPrivate = []string{"10.1.0.0/16"}
	c.Roles = map[string]config.Role{"worker": {Tools: api.ToolRules{AutoDeny: []string{"write"}}, Env: map[string]string{"X": "1"}}}
	b.Config = func() config.Config { return c }
	a.Kept.Role, a.Kept.Policy, a.Kept.Recording, a.Kept.MemoryLimitMB = "worker", nonzero.Of[api.Policy](), true, 500
	a.Kept.Limits = nonzero.Of[api.Limits]()
	a.Kept.Egress, a.Kept.HostPorts = []string{"registry.example"}, []uint16{5432}
	a.WS.Answers = store.Answers{Rules: []api.ApprovalRule{{ID: "q1", Agent: "ann"}}}
	return b, a
}

// TestEverySettingOfAnAgentIsInItsSpec: a setting that is added, and that nothing fills, fails here.
func TestEverySettingOfAnAgentIsInItsSpec(t *testing.T) {
	b, a := everySetting(t)
	v := b.Settings(a)
	require.Empty(t, nonzero.Missing(v), "settings that the agent has and its shim does not get")
	require.Equal(t, v, b.Spec(a, "/run/ann").Settings, "at its start")
}
