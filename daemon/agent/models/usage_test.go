package models

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/gateway/ledger"
	"polis/daemon/gateway/raise"
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
		got, err := new(Book).Usage([]string{dir, filepath.Join(dir, "none")}, by, since, nil)
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
	byRole, err := new(Book).Usage([]string{dir}, "role", "", map[string]string{filepath.Join(dir, "ana"): "team"})
	require.NoError(t, err)
	require.Equal(t, "", byRole[0].Key, "bob has none")
	require.Equal(t, "team", byRole[1].Key)
	require.Equal(t, int64(30), byRole[1].InputTokens)
	got, err := new(Book).Usage([]string{dir}, "model", "", nil)
	require.NoError(t, err)
	require.Equal(t, api.ModelUse{Key: "big", Requests: 2, InputTokens: 110, OutputTokens: 2, Cost: map[string]float64{"EUR": 2}, FirstTokenMS: 4}, got[0])
	for _, bad := range [][2]string{{"colour", ""}, {"day", "yesterday"}} {
		_, err := new(Book).Usage([]string{dir}, bad[0], bad[1], nil)
		require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bob", "models.json"), []byte("x"), 0o600))
	got, err = new(Book).Usage([]string{dir}, "agent", "", nil)
	require.ErrorContains(t, err, "bob")
	require.Len(t, got, 1, "the others count")
}

func TestAnAgentAndItsTasksHaveWhatTheyUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "ana")
	var b Book
	now := time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	u, some, err := b.Agent(dir, setting.ModelBudget{}, "", now)
	require.NoError(t, err)
	require.False(t, some)
	require.Nil(t, u.Budget)
	require.NoError(t, os.Mkdir(dir, 0o700))
	l, err := ledger.Open(dir)
	require.NoError(t, err)
	for _, r := range []ledger.Row{
		{Key: ledger.Key{Day: "2026-03-01", Task: "ana.1", Model: "m", Currency: "EUR"}, Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Input: 70}, Micros: 2_000_000, Priced: 1}},
		{Key: ledger.Key{Day: "2026-03-02", Task: "ana.2", Model: "m", Currency: "EUR"}, Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Input: 30}, Unpriced: 1}},
		{Key: ledger.Key{Day: "2026-03-02", Model: "free", Currency: "EUR"}, Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Output: 50}, Priced: 1}},
	} {
		require.NoError(t, l.Add(r))
	}
	u, some, err = b.Agent(dir, setting.ModelBudget{TaskTokens: 100, DayTokens: 100}, "ana.2", now)
	require.NoError(t, err)
	require.True(t, some)
	require.Equal(t, api.ModelUse{Key: "ana", Requests: 3, InputTokens: 100, OutputTokens: 50, Cost: map[string]float64{"EUR": 2}, Unpriced: 1,
		Budget: &api.ModelBudgetUse{Percent: 80, Bound: "day_tokens", Text: "80 of 100 tokens of the day"}}, u)
	tasks, err := b.Tasks(dir)
	require.NoError(t, err)
	require.Equal(t, map[string]api.ModelUse{
		"ana.1": {Key: "ana.1", Requests: 1, InputTokens: 70, Cost: map[string]float64{"EUR": 2}},
		"ana.2": {Key: "ana.2", Requests: 1, InputTokens: 30, Unpriced: 1},
	}, tasks)
	for i := range 2 * maxReaders {
		_, _, err := b.Agent(filepath.Join(dir, fmt.Sprint(i)), setting.ModelBudget{}, "", now)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(b.readers), maxReaders)
}

func TestAFamilyHasOneBudgetForWorkers(t *testing.T) {
	dir, now := t.TempDir(), time.Date(2026, 3, 2, 1, 0, 0, 0, time.UTC)
	place := func(name string, rows ...ledger.Key) string {
		d := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(d, 0o700))
		l, err := ledger.Open(d)
		require.NoError(t, err)
		for _, k := range rows {
			require.NoError(t, l.Add(ledger.Row{Key: k, Counts: ledger.Counts{Requests: 1, Tokens: usage.Tokens{Input: 10}}}))
		}
		return d
	}
	family := []Relative{
		{Dir: place("ana", ledger.Key{Day: "2026-03-01", Task: "ana.1"}, ledger.Key{Day: "2026-03-01", Task: "ana.2"}, ledger.Key{Day: "2026-03-02", Task: "ana.2"}), Task: "ana.2"},
		{Dir: place("old", ledger.Key{Day: "2026-03-02", Task: "old.1"})},
		{Dir: place("new", ledger.Key{Day: "2026-03-02", Task: "new.1"}), InTask: true},
		{Dir: filepath.Join(dir, "gone")},
	}
	var b Book
	for _, c := range []struct {
		bounds setting.ModelBudget
		spent  bool
		text   string
	}{
		{setting.ModelBudget{TaskTokens: 30}, true, "30 of 30 tokens of the task"},
		{setting.ModelBudget{TaskTokens: 31}, false, "30 of 31 tokens of the task"},
		{setting.ModelBudget{DayTokens: 30}, true, "30 of 30 tokens of the day"},
		{setting.ModelBudget{}, false, ""},
	} {
		st, err := b.Family(c.bounds, family, now)
		require.NoError(t, err)
		require.Equal(t, c.spent, st.Spent())
		require.Equal(t, c.text, st.Text)
	}

	// What a person raised of the first agent's budget counts, for the present task and day alone.
	s, err := raise.Open(family[0].Dir)
	require.NoError(t, err)
	for _, r := range []raise.Raise{{Bound: "day_tokens", Of: "2026-03-02", To: 60}, {Bound: "task_tokens", Of: "ana.2", To: 90}, {Bound: "day_money", Of: "2026-03-01", To: 9}} {
		require.NoError(t, s.Add(r))
	}
	for text, bounds := range map[string]setting.ModelBudget{"30 of 60 tokens of the day": {DayTokens: 30}, "30 of 90 tokens of the task": {TaskTokens: 30}} {
		st, err := b.Family(bounds, family, now)
		require.NoError(t, err)
		require.False(t, st.Spent(), text)
		require.Equal(t, text, st.Text)
	}
	st, err := b.Family(setting.ModelBudget{DayTokens: 30}, family, now.AddDate(0, 0, -1))
	require.NoError(t, err)
	require.Equal(t, "20 of 30 tokens of the day", st.Text)
	require.NoError(t, os.WriteFile(filepath.Join(family[0].Dir, "models.raised.json"), []byte("x"), 0o600))
	_, err = b.Family(setting.ModelBudget{DayTokens: 30}, family, now)
	require.Error(t, err)
}
