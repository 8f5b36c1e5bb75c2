package receipt

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestALogIsReadInItsTurn: a caller waits while others read, no longer than its own call, and gets what it wants after them.
func TestALogIsReadInItsTurn(t *testing.T) {
	s := store(t.TempDir())
	require.NoError(t, readers.Acquire(t.Context(), 2))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, _, err := s.Refusals(ctx, "claude", time.Time{})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	readers.Release(2)
	_, _, err = s.Refusals(t.Context(), "claude", time.Time{})
	require.NoError(t, err)
}
