package daemon

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/agent"
	"polis/daemon/patrol"
)

func TestCountersAreReadAgainUnlessNothingRan(t *testing.T) {
	of := func(change func(*agent.Living)) *agent.Living {
		v := &agent.Living{InitPID: 7, Observed: patrol.Observed{Created: time.Unix(1, 0), Generation: 2, PID: 8, Sample: patrol.Sample{CPU: time.Second}}}
		change(v)
		return v
	}
	for name, tc := range map[string]struct {
		last  *agent.Living
		stood bool
	}{
		"nothing ran":                    {of(func(*agent.Living) {}), true},
		"it is measured first":           {nil, false},
		"the last measurement failed":    {of(func(v *agent.Living) { v.Err = errors.New("x") }), false},
		"it used the processor":          {of(func(v *agent.Living) { v.Sample.CPU-- }), false},
		"its program is another":         {of(func(v *agent.Living) { v.PID = 9 }), false},
		"its sandbox is another":         {of(func(v *agent.Living) { v.InitPID = 9 }), false},
		"its generation is another":      {of(func(v *agent.Living) { v.Generation = 1 }), false},
		"it is another one of that name": {of(func(v *agent.Living) { v.Created = time.Unix(2, 0) }), false},
	} {
		require.Equal(t, tc.stood, stood(of(func(*agent.Living) {}), tc.last), name)
	}
}
