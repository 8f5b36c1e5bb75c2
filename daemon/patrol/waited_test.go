package patrol

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/patrol/verdict"
)

// The reports of a shim can be minutes old: a wait lasts while they have it, and is over when a newer one does not.
func TestAWaitThatIsOverIsNoHang(t *testing.T) {
	p, lim := New(), Limits{Limits: verdict.Limits{Stalled: 2 * time.Minute, Spinning: 4 * time.Minute}}
	class := func(minute int, waits time.Time, output int64) api.PatrolClass {
		o := at(0)
		o.Waits, o.Sample.Output = waits, output
		suspects, _ := p.Look(began.Add(time.Duration(minute)*time.Minute), []Observed{o}, lim)
		if len(suspects) == 0 {
			return ""
		}
		return suspects[0].Class
	}
	minute := func(n int) time.Time { return began.Add(time.Duration(n) * time.Minute) }
	require.Empty(t, class(0, minute(0), 0))
	require.Empty(t, class(1, minute(0), 0))
	require.Equal(t, api.PatrolStalled, class(10, minute(0), 0), "its shim is queried again")
	require.Empty(t, class(11, minute(11), 0))
	require.Equal(t, api.PatrolStalled, class(20, minute(11), 0))
	require.Empty(t, class(21, time.Time{}, 1), "it has its answer, and printed that")
	require.Empty(t, class(22, time.Time{}, 1))
	require.Equal(t, api.PatrolStalled, class(24, time.Time{}, 1), "it hangs")
}
