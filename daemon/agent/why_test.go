package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

func TestRecordedRefusalsAreThoseOfReceiptsAndTasks(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0).UTC() }
	first := at(1)
	got := mergeRefusals([]api.WhyEntry{
		{Time: at(1), Op: "read", Path: "a", Code: api.CodeUndeclaredRead, Hint: "old", Program: "cat", Pid: 7},
		{Time: at(5), Op: "read", Path: "a", Code: api.CodeUndeclaredRead, Count: 4, Hint: "new"},
		{Time: at(9), Op: "write", Path: "a", Code: api.CodeFileLocked, Holder: "bob"},
	}, []api.WhyEntry{
		{Time: at(5), Op: "read", Path: "a", Code: api.CodeUndeclaredRead, Count: 5, Errno: "EACCES", Hint: "new"},
		{Time: at(2), Op: "read", Path: "b", Code: api.CodeUndeclaredRead},
		{Time: at(3), Op: "read", Path: "c", Code: api.CodeUndeclaredRead, Probe: true},
	})
	require.Equal(t, []api.WhyEntry{
		{Time: at(9), Op: "write", Path: "a", Code: api.CodeFileLocked, Holder: "bob"},
		{Time: at(5), Op: "read", Path: "a", Code: api.CodeUndeclaredRead, Count: 5, First: &first, Hint: "new", Program: "cat", Pid: 7, Errno: "EACCES"},
		{Time: at(2), Op: "read", Path: "b", Code: api.CodeUndeclaredRead},
	}, got)
}

func TestNoRecordedRefusalIsCountedTwiceOrLost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entry := rapid.Custom(func(t *rapid.T) api.WhyEntry {
			return api.WhyEntry{Time: time.Unix(int64(rapid.IntRange(1, 50).Draw(t, "time")), 0), Op: "read", Path: fmt.Sprint(rapid.IntRange(1, 5).Draw(t, "path")),
				Code: api.CodeUndeclaredRead, Count: rapid.IntRange(0, 9).Draw(t, "count")}
		})
		receipts, tasks := rapid.SliceOfN(entry, 0, 20).Draw(t, "receipts"), rapid.SliceOfN(entry, 0, 20).Draw(t, "tasks")
		sums, most := map[string]int{}, map[string]int{}
		newest := map[string]time.Time{}
		for _, w := range receipts {
			sums[w.Path] += max(w.Count, 1)
		}
		for _, w := range tasks {
			most[w.Path] = max(most[w.Path], w.Count, 1)
		}
		for _, w := range append(receipts[:len(receipts):len(receipts)], tasks...) {
			if w.Time.After(newest[w.Path]) {
				newest[w.Path] = w.Time
			}
		}
		got := mergeRefusals(receipts, tasks)
		require.Len(t, got, len(newest))
		for i, w := range got {
			require.Equal(t, max(sums[w.Path], most[w.Path]), max(w.Count, 1), w.Path)
			require.Equal(t, newest[w.Path], w.Time)
			if i > 0 {
				require.False(t, w.Time.After(got[i-1].Time), "the newest is first")
			}
		}
	})
}
