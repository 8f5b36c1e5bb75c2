package pause

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPauseEndsWithItsContext(t *testing.T) {
	require.True(t, For(t.Context(), time.Millisecond))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.False(t, For(ctx, time.Hour))
	require.False(t, Worker(ctx, time.Now().Add(-time.Hour), time.Hour))
}

func TestAWorkerPausesInProportion(t *testing.T) {
	start := time.Now()
	require.True(t, Worker(t.Context(), start.Add(-5*time.Millisecond), time.Minute))
	require.GreaterOrEqual(t, time.Since(start), 20*time.Millisecond)
	start = time.Now()
	require.True(t, Worker(t.Context(), start.Add(-time.Hour), 10*time.Millisecond), "and no longer than the most")
	require.GreaterOrEqual(t, time.Since(start), 10*time.Millisecond)
}
