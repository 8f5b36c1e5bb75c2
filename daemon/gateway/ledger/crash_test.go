package ledger

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"polis/internal/need"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LEDGER_WRITES"); dir != "" {
		writeUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// writeUntilKilled counts requests of one token, and prints a line when each has begun and when it is counted.
func writeUntilKilled(dir string) {
	l, err := Open(dir)
	if err != nil {
		fmt.Println("failed", err)
		os.Exit(1)
	}
	l.max = 1 << 10 // often summed
	for {
		id, err := l.Begin(row("2026-01-01", "a.1", 1))
		if err == nil {
			fmt.Println("began")
			err = l.End(id, row("2026-01-01", "a.1", 1))
		}
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
		fmt.Println("ended")
	}
}

// TestAKillAtAnyMomentNeitherLosesNorDoublesACount: a request whose end was reported is counted, each that has begun
// is counted once, and none that has not begun.
func TestAKillAtAnyMomentNeitherLosesNorDoublesACount(t *testing.T) {
	dir := t.TempDir()
	most, open := int64(0), 0
	least := int64(0)
	for range 40 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "LEDGER_WRITES="+dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		in := bufio.NewScanner(out)
		began, ended := int64(0), int64(0)
		kill := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
		for in.Scan() {
			switch text := in.Text(); text {
			case "began":
				if began++; began == 1 {
					kill.Reset(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
				}
			case "ended":
				ended++
			default:
				t.Fatal(text)
			}
		}
		_ = cmd.Wait()
		// Between the line in the journal and its report, it can be killed.
		least, most = least+began, most+began+1
		l, err := Open(dir)
		require.NoError(t, err)
		require.Zero(t, l.Recovered().Unread, "a kill cuts no line short")
		open += l.Recovered().Open
		got := l.Sum(func(Key) bool { return true })
		require.GreaterOrEqual(t, got.Requests, least)
		require.LessOrEqual(t, got.Requests, most)
		require.Equal(t, got.Requests, got.Input)
		require.NoError(t, l.Close())
		again, err := Open(dir)
		require.NoError(t, err)
		require.Equal(t, got, again.Sum(func(Key) bool { return true }))
		require.Zero(t, again.Recovered())
		require.NoError(t, again.Close())
		least, most = got.Requests, got.Requests
		left, err := filepath.Glob(filepath.Join(dir, ".*"))
		require.NoError(t, err)
		require.Empty(t, left, "what a kill left of a write is removed")
	}
	t.Logf("%d requests, %d of them open at a kill", least, open)
}

// Feature: multi-agent-workspaces, Property: a journal that ends anywhere has the counts of its whole lines
func TestAJournalThatEndsAnywhereIsReadUpToThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "ledger")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		l := open(t, dir)
		type mark struct {
			size int64
			c    Counts
			open int
		}
		var ids []uint64
		marks := []mark{{}}
		for range rapid.IntRange(1, 12).Draw(t, "lines") {
			switch n := rapid.Int64Range(1, 9).Draw(t, "n"); {
			case n < 4:
				id, err := l.Begin(row("2026-01-01", "", 100))
				require.NoError(t, err)
				ids = append(ids, id)
			case n < 7 && len(ids) > 0:
				i := rapid.IntRange(0, len(ids)-1).Draw(t, "which")
				require.NoError(t, l.End(ids[i], row("2026-01-01", "", n)))
				ids = append(ids[:i], ids[i+1:]...)
			default:
				require.NoError(t, l.Add(row("2026-01-02", "", n)))
			}
			marks = append(marks, mark{l.size, l.Sum(func(Key) bool { return true }), len(ids)})
		}
		require.NoError(t, l.Close())
		at := rapid.Int64Range(0, l.size).Draw(t, "cut")
		require.NoError(t, os.Truncate(filepath.Join(dir, journalFile), at))
		m := marks[0]
		for _, x := range marks {
			if x.size <= at {
				m = x
			}
		}
		l = open(t, dir)
		r := Recovered{Open: m.open}
		if at > m.size {
			r.Unread = 1
		}
		require.Equal(t, r, l.Recovered())
		want := m.c
		for range m.open {
			want.Add(row("", "", 100).Counts)
		}
		require.Equal(t, want, l.Sum(func(Key) bool { return true }))
		require.NoError(t, l.Add(row("2026-01-02", "", 1)))
		want.Add(row("", "", 1).Counts)
		rows, err := Read(dir)
		require.NoError(t, err)
		require.Equal(t, want, total(rows))
		require.NoError(t, l.Close())
	})
}

func TestRequestsThatWereOpenAreCountedOnce(t *testing.T) {
	dir := t.TempDir()
	l := open(t, dir)
	first, err := l.Begin(row("2026-01-01", "a.1", 50))
	require.NoError(t, err)
	second, err := l.Begin(row("2026-01-01", "a.1", 60))
	require.NoError(t, err)
	require.NoError(t, l.compact()) // the sums have those that are open
	third, err := l.Begin(row("2026-01-01", "a.1", 70))
	require.NoError(t, err)
	require.NoError(t, l.End(first, row("2026-01-01", "a.1", 5)))
	rows, err := Read(dir)
	require.NoError(t, err)
	require.Equal(t, int64(5), total(rows).Input, "they are not counted before their end")
	require.NotEqual(t, second, third)

	l = open(t, dir) // it was killed
	require.Equal(t, Recovered{Open: 2}, l.Recovered())
	rows, err = Read(dir)
	require.NoError(t, err)
	require.Equal(t, Counts{Requests: 3, Tokens: row("", "", 135).Tokens}, total(rows))
	l = open(t, dir)
	require.Zero(t, l.Recovered())
	require.Equal(t, int64(135), l.Sum(func(Key) bool { return true }).Input)
}

// TestAFullDiskLosesNoCount: what could not be written is written when there is room again, also lines that were cut
// short, and more of them than are kept as lines.
func TestAFullDiskLosesNoCount(t *testing.T) {
	need.Root(t)
	for name, n := range map[string]int{"a line": 1, "some": 20, "more than are kept": 600} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, unix.Mount("ledger", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256k,mode=0700"))
			t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
			l := open(t, dir)
			require.NoError(t, l.Add(row("2026-01-01", "a.1", 1)))
			fill := filepath.Join(dir, "fill")
			require.ErrorIs(t, os.WriteFile(fill, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
			counted, failed := int64(1), 0
			for failed < n {
				id, err := l.Begin(row("2026-01-01", "a.1", 2))
				if eerr := l.End(id, row("2026-01-01", "a.1", 1)); err != nil || eerr != nil {
					require.ErrorIs(t, eerr, syscall.ENOSPC, "it is never silent")
					failed++
				}
				counted++
			}
			require.Equal(t, counted, l.Sum(func(Key) bool { return true }).Input, "in memory all is counted")
			rows, err := Read(dir)
			require.NoError(t, err)
			require.LessOrEqual(t, total(rows).Input, counted)
			require.NoError(t, os.Remove(fill))
			require.NoError(t, l.Add(row("2026-01-01", "a.1", 1)))
			rows, err = Read(dir)
			require.NoError(t, err)
			require.Equal(t, counted+1, total(rows).Input)
			require.Equal(t, counted+1, total(rows).Requests)
			require.NoError(t, l.Close())
			l = open(t, dir)
			require.Zero(t, l.Recovered().Open)
			require.Equal(t, counted+1, l.Sum(func(Key) bool { return true }).Input)
			require.NoError(t, l.Close())
		})
	}
}

// TestADiskThatIsFullAtTheEndIsReported: the last moment to save what is in memory only.
func TestADiskThatIsFullAtTheEndIsReported(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	require.NoError(t, unix.Mount("ledger", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=0700"))
	t.Cleanup(func() { require.NoError(t, unix.Unmount(dir, 0)) })
	l := open(t, dir)
	fill := filepath.Join(dir, "fill")
	require.ErrorIs(t, os.WriteFile(fill, make([]byte, 1<<20), 0o600), syscall.ENOSPC)
	require.ErrorIs(t, l.Add(row("2026-01-01", strings.Repeat("a", 500), 1)), syscall.ENOSPC)
	require.ErrorIs(t, l.Close(), syscall.ENOSPC)
}
