package cgroup

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAMeterMovesWhileProcessesRun(t *testing.T) {
	h := needRoot(t)
	g := group(t, h)
	require.NoError(t, g.Ensure(Limits{}))
	m, err := g.Meter()
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	require.True(t, m.Moved(), "the first call cannot know")
	require.False(t, m.Moved(), "nothing is in the group")

	sleeper := start(t, g, "sleep", "1000")
	require.Eventually(t, func() bool { return !m.Moved() }, 30*time.Second, 20*time.Millisecond, "a process that sleeps is idle")
	busy := start(t, g, "/bin/sh", "-c", "while :; do :; done")
	for range 3 {
		require.Eventually(t, m.Moved, 30*time.Second, time.Millisecond)
	}
	require.NoError(t, busy.Process.Kill())
	require.Eventually(t, func() bool { return !m.Moved() }, 30*time.Second, 20*time.Millisecond)

	// A short program between two calls is seen, however short, and so is the
	// end of one.
	for range 20 {
		_, _ = start(t, g, "true").Process.Wait()
		require.Eventually(t, m.Moved, 30*time.Second, time.Millisecond)
		require.Eventually(t, func() bool { return !m.Moved() }, 30*time.Second, 20*time.Millisecond)
	}
	require.NoError(t, sleeper.Process.Kill())
	require.Eventually(t, m.Moved, 30*time.Second, time.Millisecond)
}
