package procstat

import (
	"math"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheUseOfAProcess(t *testing.T) {
	var cpu time.Duration
	for deadline := time.Now().Add(time.Minute); cpu == 0 && time.Now().Before(deadline); {
		cpu, _ = Use(os.Getpid())
	}
	require.Positive(t, cpu)
	_, memory := Use(os.Getpid())
	total, available, err := Memory()
	require.NoError(t, err)
	require.Positive(t, memory)
	require.Greater(t, total, memory)
	require.GreaterOrEqual(t, total, available)
	cpu, memory = Use(math.MaxInt32)
	require.Zero(t, cpu)
	require.Zero(t, memory)
}

func TestTheRoomOfTheMachine(t *testing.T) {
	require.Greater(t, MaxPIDs(), int64(os.Getpid()))
	free, err := FreeBytes(t.TempDir())
	require.NoError(t, err)
	require.Positive(t, free)
	_, err = FreeBytes("/nonexistent")
	require.ErrorIs(t, err, os.ErrNotExist)
}
