package models

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
	"polis/daemon/config"
	"polis/daemon/gateway/recording"
)

func TestTheOldestRecordingsGoFirst(t *testing.T) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	dir := filepath.Join(t.TempDir(), "a[b]*")
	add := func(agent string, n int, age time.Duration, mb int64) string {
		logs := filepath.Join(dir, agent)
		id := fmt.Sprintf("%s.%d", agent, n)
		require.NoError(t, os.MkdirAll(filepath.Join(logs, recording.DirName), 0o700))
		require.NoError(t, os.MkdirAll(filepath.Join(logs, "tasks"), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(logs, "tasks", fmt.Sprintf("%08d.json", n)), nil, 0o600))
		path := recording.File(logs, id)
		require.NoError(t, os.WriteFile(path, nil, 0o600))
		require.NoError(t, os.Truncate(path, mb<<20))
		require.NoError(t, os.Chtimes(path, now.Add(-age), now.Add(-age)))
		return path
	}
	old := add("ann", 1, 49*time.Hour, 1)
	large := add("bob", 1, 20*time.Hour, 8)
	second := add("ann", 2, 10*time.Hour, 4)
	newest := add("bob", 2, time.Hour, 5)
	gone := add("ann", 3, time.Minute, 0)
	require.NoError(t, os.Remove(filepath.Join(dir, "ann", "tasks", "00000003.json")))
	other := filepath.Join(dir, "ann", recording.DirName, "notes.txt")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	limits := config.Recordings{MaxMB: 10, Keep: setting.Duration(48 * time.Hour)}
	s := &Sweeper{Dirs: func() []string { return []string{dir, filepath.Join(dir, "none")} }, Limits: func() config.Recordings { return limits }, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now }}
	require.NoError(t, s.Sweep())
	for _, path := range []string{old, large, gone} {
		require.NoFileExists(t, path)
	}
	for _, path := range []string{second, newest, other} {
		require.FileExists(t, path)
	}
	limits.MaxMB = 1
	require.NoError(t, s.Sweep())
	require.NoFileExists(t, newest)
	require.FileExists(t, other)
}

func TestRolesDecideWhatIsRecorded(t *testing.T) {
	yes, no := true, false
	c := config.Config{Models: map[string]config.Model{"a": {Record: true}, "b": {}}, Roles: map[string]config.Role{"on": {Gateway: config.Gateway{Record: &yes}}, "off": {Gateway: config.Gateway{Record: &no}}}}
	for _, x := range []struct {
		role, model string
		want        bool
	}{{"", "a", true}, {"", "b", false}, {"on", "b", true}, {"off", "a", false}, {"gone", "a", true}} {
		require.Equal(t, x.want, c.Records(x.role, x.model), "%+v", x)
	}
	c.Gateway.Record = &yes
	require.True(t, c.Records("", "b"))
	require.False(t, c.Records("off", "b"))
}
