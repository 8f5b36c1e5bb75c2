package raise

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api/setting"
)

func TestARaiseIsOfOneTaskOrOneDayAndIsKept(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir)
	require.NoError(t, err)
	b := setting.ModelBudget{TaskTokens: 10, DayTokens: 100, DayMoney: 1}
	for _, r := range []Raise{{"task_tokens", "ana.1", 20}, {"day_tokens", "2026-11-23", 150}, {"day_money", "2026-11-23", 0.5}, {"task_money", "ana.1", 9}, {"other", "ana.1", 9}} {
		require.NoError(t, s.Add(r))
	}
	again, err := Open(dir)
	require.NoError(t, err)
	read, err := Read(dir)
	require.NoError(t, err)
	for name, c := range map[string]struct {
		task, day string
		want      setting.ModelBudget
	}{
		"both":             {"ana.1", "2026-11-23", setting.ModelBudget{TaskTokens: 20, DayTokens: 150, DayMoney: 1}},
		"another task":     {"ana.2", "2026-11-23", setting.ModelBudget{TaskTokens: 10, DayTokens: 150, DayMoney: 1}},
		"no task, another": {"", "2026-11-24", b},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, s.Over(b, c.task, c.day))
			require.Equal(t, c.want, again.Over(b, c.task, c.day))
			require.Equal(t, c.want, read.Over(b, c.task, c.day))
		})
	}
	require.Equal(t, setting.ModelBudget{}, s.Over(setting.ModelBudget{}, "ana.1", "2026-11-23"), "what has no bound gets none")
	require.Equal(t, b, (*Store)(nil).Over(b, "ana.1", "2026-11-23"))

	for i := range 2 * maxRaises {
		require.NoError(t, s.Add(Raise{"day_tokens", fmt.Sprint(i), 1}))
	}
	read, err = Read(dir)
	require.NoError(t, err)
	require.Len(t, read, maxRaises)
	require.Equal(t, fmt.Sprint(2*maxRaises-1), read[maxRaises-1].Of)

	require.NoError(t, os.WriteFile(filepath.Join(dir, fileName), []byte("{"), 0o600))
	_, err = Open(dir)
	require.Error(t, err)
}
