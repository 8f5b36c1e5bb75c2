package merge

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// The wait between two tries grows, is bounded, and is not the same for two.
func TestDelay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		try := rapid.IntRange(-3, 200).Draw(t, "try")
		d := Delay(try)
		require.Positive(t, d)
		require.LessOrEqual(t, d, maxWait)
		if try > 6 {
			require.GreaterOrEqual(t, d, maxWait/2)
		}
	})
	require.Less(t, Delay(1), 2*firstWait)
	seen := map[time.Duration]bool{}
	for range 100 {
		seen[Delay(8)] = true
	}
	require.Greater(t, len(seen), 50)
}

func TestBackoffEndsWithItsContext(t *testing.T) {
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	require.ErrorIs(t, Backoff(ctx, 100), gone)
	require.NoError(t, Backoff(t.Context(), 1))
}
