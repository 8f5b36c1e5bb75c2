package models

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/usage"
)

func TestUsageIsSummedByWhatIsAskedFor(t *testing.T) {
	dir := t.TempDir()
	add := func(agent, day, task, model, currency string, in, micros int64) {
		d := filepath.Join(dir, agent)
		require.NoError(t, os.MkdirAll(d, 0o700))
		l, err := ledger.Open(d)
		require.NoError(t, err)
		require.NoError(t, l.Add(ledger.Row{Key: ledger.Key{Day: day, Task: task, Service: "s", Model: model, Currency: currency},
			Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Input: in, Output: 1}, Micros: micros, Answers: 1, FirstMicros: 4000}}))
		require.NoError(t, l.Close())
	}
	add("ana", "2026-01-01", "ana.1", "big", "EUR", 10, 1_500_000)
	add("ana", "2026-01-02", "ana.2", "small", "USD", 20, 0)
	add("bob", "2026-01-02", "", "big", "EUR", 100, 500_000)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	keys := func(by, since string) (out []string) {
		got, err := Usage([]string{dir, filepath.Join(dir, "none")}, by, since)
		require.NoError(t, err)
		for _, u := range got {
			out = append(out, u.Key)
		}
		return out
	}
	require.Equal(t, []string{"bob", "ana"}, keys("agent", ""))
	require.Equal(t, []string{"big", "small"}, keys("model", ""))
	require.Equal(t, []string{"2026-01-01", "2026-01-02"}, keys("day", ""))
	require.Equal(t, []string{"", "ana.2"}, keys("task", "2026-01-02"))
	got, err := Usage([]string{dir}, "model", "")
	require.NoError(t, err)
	require.Equal(t, api.ModelUse{Key: "big", Requests: 2, InputTokens: 110, OutputTokens: 2, Cost: map[string]float64{"EUR": 2}, FirstTokenMS: 4}, got[0])
	for _, bad := range [][2]string{{"colour", ""}, {"day", "yesterday"}} {
		_, err := Usage([]string{dir}, bad[0], bad[1])
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bob", "models.json"), []byte("x"), 0o600))
	got, err = Usage([]string{dir}, "agent", "")
	require.ErrorContains(t, err, "bob")
	require.Len(t, got, 1, "the others count")
}
