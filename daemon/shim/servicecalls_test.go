package shim

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/gateway"
)

func TestEqualCallsAreReportedOnceAMinute(t *testing.T) {
	var c serviceCalls
	now := time.Unix(1000, 0)
	call := gateway.Call{Service: "git", Method: "GET", Path: "/a", Status: 200}
	n, _ := c.due(call, now)
	require.Equal(t, 1, n)
	for range 5 {
		n, _ = c.due(call, now.Add(time.Second))
		require.Zero(t, n)
	}
	other := call
	other.Status = 500
	n, _ = c.due(other, now.Add(time.Second))
	require.Equal(t, 1, n, "another result is another event")
	n, omitted := c.due(call, now.Add(callQuiet))
	require.Equal(t, 6, n)
	require.Zero(t, omitted)
	for i := range 10 * maxCallEvents {
		call.Path = fmt.Sprint("/", i)
		c.due(call, now.Add(callQuiet))
	}
	require.LessOrEqual(t, len(c.calls), 2*maxCallEvents)
	_, omitted = c.due(call, now.Add(2*callQuiet))
	require.Positive(t, omitted)
}

// Feature: multi-agent-workspaces, Property: every call is in an event, is counted for one, or is reported as omitted
func TestNoCallIsLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c serviceCalls
		now, reported := time.Unix(1000, 0), 0
		calls := rapid.IntRange(1, 300).Draw(t, "calls")
		for range calls {
			now = now.Add(time.Duration(rapid.IntRange(0, 20).Draw(t, "seconds")) * time.Second)
			n, omitted := c.due(gateway.Call{Path: fmt.Sprint(rapid.IntRange(0, 99).Draw(t, "path"))}, now)
			reported += n + omitted
		}
		waiting := c.omitted
		for _, k := range c.calls {
			waiting += k.count
		}
		require.Equal(t, calls, reported+waiting)
		require.LessOrEqual(t, len(c.calls), 3*maxCallEvents)
	})
}
