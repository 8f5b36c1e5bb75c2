package events

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestNumbersOfEventsAreNotGivenOutAgain(t *testing.T) {
	dir := t.TempDir()
	at := func(started time.Time) uint64 {
		return Reserve(filepath.Join(dir, "events.json"), started, slog.New(slog.DiscardHandler))
	}
	now := time.Now()
	first := at(now)
	require.Equal(t, uint64(now.UnixMilli()), first)
	second := at(now.Add(-time.Hour))
	require.GreaterOrEqual(t, second, first+maxOfARun, "also when the clock goes back")
	require.Less(t, second, uint64(1)<<53)
	require.GreaterOrEqual(t, at(now), second+maxOfARun)

	// A count that cannot be read keeps no daemon from starting.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events.json"), []byte("{"), 0o600))
	require.Equal(t, uint64(now.UnixMilli()), at(now))
}
