package worktree

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestSavedWorkExpiresAfterTheAgeThatIsSet(t *testing.T) {
	now := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for seconds, age := range map[int64]time.Duration{0: 5 * time.Hour, 1: time.Second, 10 * 365 * 24 * 3600: 10 * 365 * 24 * time.Hour} {
		before, err := Expiry(api.GCRequest{BeforeSeconds: seconds}, 5*time.Hour, now)
		require.NoError(t, err)
		require.Equal(t, now.Add(-age), before)
	}
	for _, seconds := range []int64{-1, 10*365*24*3600 + 1, math.MaxInt64, math.MinInt64} {
		_, err := Expiry(api.GCRequest{BeforeSeconds: seconds}, time.Hour, now)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
}
