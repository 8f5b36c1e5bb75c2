package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/config"
)

func TestNumbersOfEventsAreNotGivenOutAgain(t *testing.T) {
	dir := t.TempDir()
	at := func(started time.Time) uint64 {
		return (&Daemon{Config: config.Config{WorkspacesDir: dir}, Log: slog.New(slog.DiscardHandler), started: started}).firstEvent()
	}
	now := time.Now()
	first := at(now)
	require.Equal(t, uint64(now.UnixMilli()), first)
	second := at(now.Add(-time.Hour))
	require.GreaterOrEqual(t, second, first+eventsOfALife, "also when the clock goes back")
	require.Less(t, second, uint64(1)<<53)
	require.GreaterOrEqual(t, at(now), second+eventsOfALife)

	// A count that cannot be read keeps no daemon from starting.
	require.NoError(t, os.WriteFile(filepath.Join(dir, "events.json"), []byte("{"), 0o600))
	require.Equal(t, uint64(now.UnixMilli()), at(now))
}
