package shim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAFreezeThatEndsByItselfWaitsForNobody: with one, as for a checkpoint, an open question is still what the agent waits for.
func TestAFreezeThatEndsByItselfWaitsForNobody(t *testing.T) {
	soon, question := time.Now().Add(time.Second), &api.Waiting{For: api.WaitingApproval}
	for name, c := range map[string]struct {
		frozen *api.Frozen
		open   *api.Waiting
		want   bool
	}{
		"not frozen":                     {nil, nil, false},
		"by the patrol":                  {&api.Frozen{By: api.FrozenByPatrol, Until: &soon}, nil, false},
		"by the patrol, and a question":  {&api.Frozen{By: api.FrozenByPatrol, Until: &soon}, question, false},
		"by a breaker, and a question":   {&api.Frozen{By: "breaker"}, question, true},
		"by a budget":                    {&api.Frozen{By: api.FrozenByBudget}, nil, true},
		"by a budget, with its question": {&api.Frozen{By: api.FrozenByBudget}, question, false},
	} {
		require.Equal(t, c.want, waitsForThaw(c.frozen, c.open), name)
	}
}
