package agent

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/patrol"
)

func TestCountersAreReadAgainUnlessNothingRan(t *testing.T) {
	of := func(change func(*Living)) *Living {
		v := &Living{InitPID: 7, Observed: patrol.Observed{Created: time.Unix(1, 0), Generation: 2, PID: 8, Sample: patrol.Sample{CPU: time.Second}}}
		change(v)
		return v
	}
	for name, tc := range map[string]struct {
		last  *Living
		taken bool
	}{
		"nothing ran":                    {of(func(v *Living) { v.Began, v.Sample.Calls, v.Sample.Net = 9, 10, 11 }), true},
		"it is measured first":           {nil, false},
		"the last measurement failed":    {of(func(v *Living) { v.Err = errors.New("x") }), false},
		"it used the processor":          {of(func(v *Living) { v.Sample.CPU-- }), false},
		"its program is another":         {of(func(v *Living) { v.PID = 9 }), false},
		"its sandbox is another":         {of(func(v *Living) { v.InitPID = 9 }), false},
		"its generation is another":      {of(func(v *Living) { v.Generation = 1 }), false},
		"it is another one of that name": {of(func(v *Living) { v.Created = time.Unix(2, 0) }), false},
	} {
		now := of(func(*Living) {})
		require.Equal(t, tc.taken, now.TakeCounters(tc.last), name)
		if tc.taken {
			require.Equal(t, tc.last.Observed, now.Observed)
		} else {
			require.Zero(t, now.Began, name)
		}
	}
}
