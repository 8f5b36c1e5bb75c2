package agenttext

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestStepsHaveHowTheirCallsEnded(t *testing.T) {
	for want, st := range map[string]api.Step{
		"":                {Text: "make"},
		"  (passed)":      {Passed: true, Took: 0.4},
		"  (passed, 12s)": {Passed: true, Took: 12.3},
		"  (2m)":          {Took: 120},
	} {
		require.Equal(t, want, StepEnd(st))
	}
}
