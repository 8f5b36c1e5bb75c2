package store

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestRightsAreWhatAgentsMayDo(t *testing.T) {
	sum := func(change func(a *Agent)) string {
		a := Agent{Name: "a", Status: api.StatusIdle, Egress: []string{"example.org"}}
		change(&a)
		s, err := Rights([]Agent{a})
		require.NoError(t, err)
		return string(s[:])
	}
	was := sum(func(*Agent) {})
	require.Equal(t, was, sum(func(a *Agent) { a.Status = api.StatusStopped }), "a state is no right")
	for name, change := range map[string]func(a *Agent){
		"name":   func(a *Agent) { a.Name = "b" },
		"role":   func(a *Agent) { a.Role = "reviewer" },
		"policy": func(a *Agent) { a.Policy.Deny = []string{"s/**"} },
		"lost":   func(a *Agent) { a.RulesLost = true },
		"egress": func(a *Agent) { a.Egress = nil },
		"ports":  func(a *Agent) { a.HostPorts = []uint16{80} },
	} {
		require.NotEqual(t, was, sum(change), name)
	}
}
