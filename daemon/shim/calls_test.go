package shim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/cgroup/sandbox"
	"polis/daemon/api"
)

func call(program, name, wanted string, at time.Time) sandbox.RefusedCall {
	return sandbox.RefusedCall{Time: at, Pid: 7, Program: program, Call: name, Wanted: wanted, Kind: sandbox.KindNamespace}
}

func TestRepeatedCallsAreReportedLessAndLess(t *testing.T) {
	now := time.Now()
	f := dedup{now: func() time.Time { return now }}
	require.True(t, f.next().IsZero())
	got := f.add(call("sh", "mount", "", now))
	require.Len(t, got, 1)
	require.Equal(t, 1, got[0].count)
	require.True(t, f.next().IsZero(), "nothing was counted")
	require.Len(t, f.add(call("sh", "mount", "MS_BIND", now)), 1, "another wish")
	require.Len(t, f.add(call("bash", "mount", "", now)), 1, "another program")
	start := now
	reports, calls := 0, 0
	for now.Sub(start) < 3*time.Hour {
		now = now.Add(time.Second)
		for range 10 {
			for _, d := range f.add(call("sh", "mount", "", now)) {
				reports, calls = reports+1, calls+d.count
			}
		}
		for _, d := range f.due() {
			reports, calls = reports+1, calls+d.count
		}
		require.False(t, f.next().IsZero() && f.m[callKey{"sh", "mount", ""}].count > 0)
	}
	require.Equal(t, 5, reports, "after 10 s, a minute, ten, an hour and another")
	require.Greater(t, calls, 7800*10)
	now = now.Add(time.Hour)
	require.Len(t, f.due(), 1, "what was counted last")
	require.Empty(t, f.due())
	require.True(t, f.next().IsZero())
}

// However many there are, and whatever they are called.
func TestAggregatedCallsAreBounded(t *testing.T) {
	now := time.Now()
	f := dedup{now: func() time.Time { return now }}
	counted := 0
	for i := range 10 * maxEntries {
		now = now.Add(time.Millisecond)
		for range 3 {
			for _, d := range f.add(call(fmt.Sprint(i), "mount", "", now)) {
				counted += d.count
			}
		}
		require.LessOrEqual(t, len(f.m), maxEntries)
	}
	now = now.Add(time.Hour)
	for _, d := range f.due() {
		counted += d.count
	}
	require.Equal(t, 3*10*maxEntries, counted, "none is lost")
}

func TestEveryRefusedCallHasAReasonAndAHint(t *testing.T) {
	for kind := range reasons {
		d := callDenial(aggregated{sandbox.RefusedCall{Call: "x", Wanted: "y", Kind: kind, Program: "p", Pid: 3}, 2})
		require.Equal(t, "x (y)", d.Path)
		require.Equal(t, string(api.CodeSyscallDenied), d.Code)
		require.Equal(t, 2, d.Count)
		require.NotEmpty(t, d.Rule)
		require.NotEmpty(t, d.Hint)
	}
	for _, kind := range []sandbox.Kind{sandbox.KindNamespace, sandbox.KindSocket, sandbox.KindKey, sandbox.KindKernel, sandbox.KindFile,
		sandbox.KindMachine, sandbox.KindProcess, sandbox.KindTerminal} {
		require.Contains(t, reasons, kind)
	}
	for name, hint := range hints {
		require.Equal(t, hint, callDenial(aggregated{sandbox.RefusedCall{Call: name}, 1}).Hint)
	}
}
