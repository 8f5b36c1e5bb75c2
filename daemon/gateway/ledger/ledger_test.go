package ledger

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/gateway/usage"
)

func row(day, task string, n int64) Row {
	return Row{Key{Day: day, Task: task, Service: "s", Model: "m"}, Counts{Requests: 1, Tokens: usage.Tokens{Input: n}}}
}

func total(rows []Row) (c Counts) {
	for _, r := range rows {
		c.Add(r.Counts)
	}
	return c
}

func open(t require.TestingT, dir string) *Ledger {
	l, err := Open(dir)
	require.NoError(t, err)
	return l
}

func TestCountsSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	rows, err := Read(dir)
	require.NoError(t, err)
	require.Empty(t, rows)
	l := open(t, dir)
	for i := range 10 {
		require.NoError(t, l.Add(row("2026-01-01", "a.1", int64(i))))
	}
	rows, err = Read(dir) // the writer lives, as polisd reads it
	require.NoError(t, err)
	require.Equal(t, []Row{{Key{Day: "2026-01-01", Task: "a.1", Service: "s", Model: "m"}, Counts{Requests: 10, Tokens: usage.Tokens{Input: 45}}}}, rows)

	// Without Close, and with a line that was cut short.
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":11,"day":"2026-01-01","req`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	l2 := open(t, dir)
	require.NoError(t, l2.Add(row("2026-01-02", "", 5)))
	rows, err = Read(dir)
	require.NoError(t, err)
	require.Equal(t, Counts{Requests: 11, Tokens: usage.Tokens{Input: 50}}, total(rows))
	require.Len(t, rows, 2)
	require.Equal(t, int64(5), l2.Sum(func(k Key) bool { return k.Task == "" }).Input)
	require.NoError(t, l2.Close())
	require.ErrorIs(t, l2.Add(row("2026-01-02", "", 5)), os.ErrClosed)
}

func TestAJournalIsSummedOnceAlsoIfACrashKeepsIt(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	for range 10 {
		require.NoError(t, l.Add(row("2026-01-01", "a.1", 1)))
	}
	lines, err := os.ReadFile(filepath.Join(dir, journalFile))
	require.NoError(t, err)
	require.NoError(t, l.compact())
	require.NoError(t, os.WriteFile(filepath.Join(dir, journalFile), lines, 0o600)) // the crash was before the truncation
	rows, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, int64(10), total(rows).Requests)
	require.Equal(t, int64(10), open(t, dir).Sum(func(Key) bool { return true }).Requests)
}

func TestALongJournalIsSummedAndNoReaderSeesADifference(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		var last int64
		for {
			rows, err := Read(dir)
			if err != nil || total(rows).Requests < last {
				t.Errorf("%v, %d after %d", err, total(rows).Requests, last)
				return
			}
			last = total(rows).Requests
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	const n = 20000
	for i := range n {
		require.NoError(t, l.Add(row("2026-01-01", fmt.Sprintf("a.%d", i%50), 1)))
	}
	close(stop)
	wg.Wait()
	require.FileExists(t, filepath.Join(dir, sumsFile))
	rows, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, int64(n), total(rows).Requests)
	require.Len(t, rows, 50)
}

// Feature: multi-agent-workspaces, Property: bounding the rows loses no count
func TestBoundingRowsLosesNoCount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := sums{}
		for range rapid.IntRange(0, 60).Draw(t, "rows") {
			r := row(fmt.Sprintf("202%d-0%d-01", rapid.IntRange(4, 6).Draw(t, "year"), rapid.IntRange(1, 9).Draw(t, "month")), rapid.StringMatching("[a-c]{0,2}").Draw(t, "task"), rapid.Int64Range(0, 9).Draw(t, "n"))
			r.Model = rapid.StringMatching("[a-e]?").Draw(t, "model")
			s.add(r)
		}
		before, limit := total(s.rows()), rapid.IntRange(5, 40).Draw(t, "limit")
		s.bound(limit)
		require.Equal(t, before, total(s.rows()))
		require.LessOrEqual(t, len(s), limit)
	})
}

func TestAReaderSeesEveryRequestOnceWhileTheJournalIsSummed(t *testing.T) {
	dir := t.TempDir()
	r := Reader{Dir: dir}
	sum := func() (c Counts) {
		require.NoError(t, r.Each(func(x Row) { c.Add(x.Counts) }))
		return c
	}
	require.Zero(t, sum())
	l := open(t, dir)
	for i := range 300 {
		require.NoError(t, l.Add(row("2026-01-01", fmt.Sprintf("a.%d", i%3), 2)))
		if i%50 == 49 {
			require.NoError(t, l.compact())
		}
		if i%7 == 0 {
			require.Equal(t, Counts{Requests: int64(i + 1), Tokens: usage.Tokens{Input: 2 * int64(i+1)}}, sum(), i)
		}
	}
	// The shim dies within a line, and the next one continues.
	f, err := os.OpenFile(filepath.Join(dir, journalFile), os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"seq":301,"requ`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.Equal(t, int64(300), sum().Requests)
	l = open(t, dir)
	require.NoError(t, l.Add(row("2026-01-01", "a.1", 2)))
	require.Equal(t, int64(301), sum().Requests)
	// The ledger is gone, and begins again.
	require.NoError(t, l.Close())
	for n := range int64(2) {
		require.NoError(t, os.Remove(filepath.Join(dir, journalFile)))
		require.NoError(t, os.RemoveAll(filepath.Join(dir, sumsFile)))
		require.NoError(t, open(t, dir).Add(row("2026-01-02", "a.1", n)))
		require.Equal(t, Counts{Requests: 1, Tokens: usage.Tokens{Input: n}}, sum())
	}
}

// Feature: multi-agent-workspaces, Property: a sum of uses never decreases
func TestSumsStayAtTheEndOfTheirRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c Counts
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, math.MaxInt64), 1, 5).Draw(t, "uses") {
			before := c
			c.Add(Counts{Requests: 1, Micros: n, Tokens: usage.Tokens{Input: n, Output: n}})
			require.GreaterOrEqual(t, c.Micros, max(before.Micros, n))
			require.GreaterOrEqual(t, c.Total(), max(before.Total(), n))
		}
	})
}

func TestAnAgentCannotMakeRowsByInventingModels(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	add := func(model string, tokens int64) {
		r := row("2026-01-01", "", tokens)
		r.Model = model
		require.NoError(t, l.Add(r))
	}
	for i := range 100 {
		add(fmt.Sprintf("invented-%d", i), 0)
	}
	add("real", 5)
	add("real", 0)
	l = open(t, dir) // the names are known again
	add("invented-99", 0)
	add("real", 5)
	for i := range 100 {
		add(fmt.Sprintf("answers-%d", i), 1)
	}
	rows, err := Read(dir)
	require.NoError(t, err)
	models := map[string]Counts{}
	for _, r := range rows {
		models[r.Model] = r.Counts
	}
	require.Len(t, models, maxAnswered+1)
	require.Equal(t, int64(3), models["real"].Requests)
	require.Equal(t, int64(10), models["real"].Input)
	require.Equal(t, int64(204), total(rows).Requests)
}

func TestTimesAreCountedByTheirBounds(t *testing.T) {
	var c Counts
	for _, micros := range []int64{1, 50_000, 50_001, 60_000_000, 60_000_001, math.MaxInt64} {
		c.TookFirst(micros)
	}
	require.Equal(t, Buckets{0: 2, 1: 1, 9: 1, 10: 2}, c.First)
	require.Equal(t, int64(6), c.Answers)
}

func TestTheFilesAreNotFollowedElsewhere(t *testing.T) {
	dir, other := t.TempDir(), filepath.Join(t.TempDir(), "other")
	require.NoError(t, os.Symlink(other, filepath.Join(dir, journalFile)))
	_, err := Open(dir)
	require.Error(t, err)
	require.NoFileExists(t, other)
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"seq":1,"day":"2026-01-01","requests":1}` + "\n" + `{"seq":2}` + "\nx"))
	f.Add([]byte(`{"seq":1,"began":true,"day":"2026-01-01","requests":1,"cut":1}` + "\n\n" + `{"seq":2,"of":1,"requests":1}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		whole, unread, tail, err := scan(bytes.NewReader(b), func(l line) { n++ })
		if err != nil || n+unread > bytes.Count(b, []byte("\n")) || tail != (whole < int64(len(b))) || whole > int64(len(b)) {
			t.Fatal(n, whole, unread, tail, err)
		}
	})
}

// FuzzOpen is slow: it waits for the disk.
func FuzzOpen(f *testing.F) {
	f.Add([]byte(`{"seq":1,"day":"2026-01-01","requests":1}` + "\n" + `{"seq":2}` + "\nx"))
	f.Add([]byte(`{"seq":1,"began":true,"day":"2026-01-01","requests":1,"cut":1}` + "\n\n" + `{"seq":2,"of":1,"requests":1}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, journalFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		// Whatever is in the file: it is opened, continued, and reads the same afterwards.
		l, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		before := l.Sum(func(Key) bool { return true })
		if err := l.Add(row("2026-01-01", "", 1)); err != nil {
			t.Fatal(err)
		}
		before.Add(row("", "", 1).Counts)
		rows, err := Read(dir)
		if err != nil || total(rows) != before {
			t.Fatal(total(rows), before, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l, err = Open(dir)
		if err != nil || l.Sum(func(Key) bool { return true }) != before {
			t.Fatal(err)
		}
		_ = l.Close()
	})
}

// TestDamagedSumsAreReportedAndKept: an empty ledger in their place would renew a budget that is spent.
func TestDamagedSumsAreReportedAndKept(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	require.NoError(t, l.Add(row("2026-01-01", "a.1", 7)))
	require.NoError(t, l.compact())
	require.NoError(t, l.Close())
	file := filepath.Join(dir, sumsFile)
	good, err := os.ReadFile(file)
	require.NoError(t, err)
	damaged := []byte(strings.Replace(string(good), "7", "0", 1))
	require.NoError(t, os.WriteFile(file, damaged, 0o600))
	for range 2 {
		_, err = Open(dir)
		_, rerr := Read(dir)
		for _, err := range []error{err, rerr} {
			require.Equal(t, api.CodeModelCountsCorrupt, api.CodeOf(err))
			require.ErrorContains(t, err, file)
			require.Contains(t, api.AsError(err).Hint, "move it and models.log away")
		}
	}
	b, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, damaged, b)

	require.NoError(t, os.WriteFile(file, good, 0o600)) // from a backup
	require.Equal(t, int64(7), open(t, dir).Sum(func(Key) bool { return true }).Input)
	for _, name := range []string{sumsFile, journalFile} { // or moved away
		require.NoError(t, os.Rename(filepath.Join(dir, name), filepath.Join(dir, name+".away")))
	}
	require.Zero(t, open(t, dir).Sum(func(Key) bool { return true }).Requests)
}
