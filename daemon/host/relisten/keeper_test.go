package relisten

import (
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestEqualReportsAreCounted: a program that removes a socket again and again fills no log.
func TestEqualReportsAreCounted(t *testing.T) {
	f, path := following(t, Options{})
	f.access.list = nil
	var got []Report
	k := &Keeper{Report: func(r Report) { got = append(got, r) }}
	k.Add(f)
	k.Check()
	require.Empty(t, got)
	lose := func() {
		require.NoError(t, os.RemoveAll(path))
		k.Check()
	}
	for range 5 {
		lose()
	}
	require.Equal(t, []Report{{Path: path, Found: Removed}}, got)

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o700)) // a directory is never replaced
	k.Check()
	k.Check()
	require.Len(t, got, 2)
	require.Error(t, got[1].Err)
	lose()
	require.Len(t, got, 3)
	require.NoError(t, got[2].Err, "that it is well again is reported")
}

func TestEqualReportsComeOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s kept
		reports, counted := 0, 0
		for range 600 {
			if r, ok := s.news(Report{Found: Removed}, time.Now()); ok {
				reports++
				counted += r.Count
			}
			time.Sleep(time.Second)
		}
		require.Equal(t, 10, reports)
		require.Equal(t, 9*59, counted)
	})
}
