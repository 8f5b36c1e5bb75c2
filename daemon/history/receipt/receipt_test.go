package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
)

type fataler interface {
	require.TestingT
	Helper()
}

func store(dir string) *Store {
	return &Store{Dir: dir, Workspace: "project", Log: slog.New(slog.DiscardHandler), Now: time.Now, Lives: func(string) bool { return true },
		Limits: func() Limits { return Limits{MaxBytes: 1 << 20, AgentBytes: 1 << 20, Keep: time.Hour} }}
}

func note(t fataler, s *Store, log string, n int) {
	t.Helper()
	for i := range n {
		require.NoError(t, s.Append(log, Entry{Type: "test", Agent: log, Message: fmt.Sprint(i)}))
	}
}

func verified(t fataler, s *Store, anchor string) api.ReceiptsCheck {
	t.Helper()
	c, err := s.Verify(context.Background(), anchor)
	require.NoError(t, err)
	return c
}

func messages(t fataler, s *Store) (out []string) {
	t.Helper()
	_, err := s.Each(context.Background(), All, func(log string, r *Receipt) error {
		if r.Type == "test" {
			out = append(out, log+":"+r.Message)
		}
		return nil
	})
	require.NoError(t, err)
	return out
}

func TestReceiptsComeBackAfterARestart(t *testing.T) {
	dir := t.TempDir()
	s := store(dir)
	note(t, s, "", 3)
	note(t, s, "claude", 2)
	c := verified(t, s, "")
	require.True(t, c.Intact, "%+v", c)
	head := c.Logs[0].Head
	require.NoError(t, s.Close())
	require.ErrorIs(t, s.Append("", Entry{}), errClosed)

	s = store(dir)
	note(t, s, "claude", 1)
	require.Equal(t, []string{":0", ":1", ":2", "claude:0", "claude:1", "claude:0"}, messages(t, s))
	c = verified(t, s, head)
	require.True(t, c.Intact, "%+v", c)
	require.False(t, verified(t, s, strings.Repeat("ab", 32)).Intact, "a head that the log never had")
	require.NoError(t, s.Close())
	fi, err := os.Stat(filepath.Join(dir, "agents", "claude"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), fi.Mode().Perm())
}

// TestPropertyACutAnywhereLosesOnlyTheLastEntries: of a log that a crash cut at any byte, all complete
// entries are there, the rest is gone, and new entries follow.
// Feature: multi-agent-workspaces, Property 5: receipts survive a crash.
func TestPropertyACutAnywhereLosesOnlyTheLastEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "receipts")
		require.NoError(t, err)
		defer os.RemoveAll(dir)
		s := store(dir)
		n := rapid.IntRange(1, 8).Draw(t, "entries")
		note(t, s, "", n)
		path := filepath.Join(dir, mainDir, fileName(1))
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		at := rapid.IntRange(0, len(b)).Draw(t, "cut")
		if rapid.Bool().Draw(t, "garbage") { // blocks that were allocated and not written
			require.NoError(t, os.WriteFile(path, append(b[:at:at], bytes.Repeat([]byte{0}, 40)...), 0o600))
		} else {
			require.NoError(t, os.WriteFile(path, b[:at], 0o600))
		}
		whole := bytes.Count(b[:at], []byte("\n")) - 2 // the header and the opening
		again := store(dir)
		got := messages(t, again)
		require.Len(t, got, max(whole, 0))
		note(t, again, "", 1)
		require.Len(t, messages(t, again), max(whole, 0)+1)
		c := verified(t, again, "")
		require.True(t, c.Intact, "%+v", c)
		require.NoError(t, again.Close())
	})
}

// TestPropertyEveryChangeIsFound: whichever byte of a closed log is changed, verify names an entry, and
// none before the changed one.
func TestPropertyEveryChangeIsFound(t *testing.T) {
	dir := t.TempDir()
	s := store(dir)
	note(t, s, "", 12)
	path := filepath.Join(dir, mainDir, fileName(1))
	whole, err := os.ReadFile(path)
	require.NoError(t, err)
	rapid.Check(t, func(t *rapid.T) {
		b := bytes.Clone(whole)
		i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "byte")
		if b[i] == c {
			t.Skip()
		}
		b[i] = c
		require.NoError(t, os.WriteFile(path, b, 0o600))
		check := verified(t, s, "")
		require.False(t, check.Intact)
		require.NotNil(t, check.Broken)
		line := uint64(bytes.Count(whole[:i], []byte("\n")))
		require.GreaterOrEqual(t, check.Broken.Seq+1, line)
		require.LessOrEqual(t, check.Broken.Seq, line+1)
	})
	require.NoError(t, os.WriteFile(path, whole, 0o600))
	require.True(t, verified(t, s, "").Intact)
	require.NoError(t, s.Close())
}

// TestTheFirstBrokenEntryIsNamed, at whatever place of which log the damage is, and also if there is more of it.
func TestTheFirstBrokenEntryIsNamed(t *testing.T) {
	dir := t.TempDir()
	s := store(dir)
	note(t, s, "", 8)
	note(t, s, "claude", 8)
	require.NoError(t, s.Close())
	change := func(l []string, at ...int) []string {
		for _, i := range at {
			l[i] = strings.Replace(l[i], `"time":"`, `"time":"1`, 1)
		}
		return l
	}
	for _, log := range []string{"", "claude"} {
		path := filepath.Join(dir, mainDir, fileName(1))
		if log != "" {
			path = filepath.Join(dir, agentsDir, log, fileName(1))
		}
		whole, err := os.ReadFile(path)
		require.NoError(t, err)
		for _, c := range []struct {
			name string
			seq  []uint64 // the broken entry, or the one that is found in its place
			edit func(l []string) []string
		}{
			{"the first is changed", []uint64{1}, func(l []string) []string { return change(l, 1) }},
			{"one in the middle is changed", []uint64{4}, func(l []string) []string { return change(l, 4) }},
			{"the last is changed", []uint64{8}, func(l []string) []string { return change(l, 8) }},
			{"several are changed", []uint64{3}, func(l []string) []string { return change(l, 7, 3, 5) }},
			{"a hash is changed", []uint64{2}, func(l []string) []string { l[2] = zero + l[2][len(zero):]; return l }},
			{"one is removed", []uint64{5, 6}, func(l []string) []string { return slices.Delete(l, 5, 6) }},
			{"one is there twice", []uint64{5, 4}, func(l []string) []string { return slices.Insert(l, 5, l[4]) }},
			{"two are swapped", []uint64{6, 7}, func(l []string) []string { l[6], l[7] = l[7], l[6]; return l }},
			{"a removed one and a changed one after it", []uint64{2, 3}, func(l []string) []string { return change(slices.Delete(l, 2, 3), 5) }},
		} {
			lines := strings.SplitAfter(strings.TrimSuffix(string(whole), "\n"), "\n")
			require.Greater(t, len(lines), 8)
			require.NoError(t, os.WriteFile(path, []byte(strings.Join(c.edit(lines), "")+"\n"), 0o600))
			check := verified(t, store(dir), "")
			require.NotNil(t, check.Broken, "%s in %q", c.name, log)
			require.Equal(t, log, check.Broken.Log, c.name)
			require.Contains(t, c.seq, check.Broken.Seq, "%s in %q: %s", c.name, log, check.Broken.Why)
		}
		require.NoError(t, os.WriteFile(path, whole, 0o600))
	}
	require.True(t, verified(t, store(dir), "").Intact)
}

func TestRemovedInsertedAndReplacedEntriesAreFound(t *testing.T) {
	dir := t.TempDir()
	s := store(dir)
	note(t, s, "", 5)
	note(t, s, "claude", 5)
	require.NoError(t, s.Close())
	main, agent := filepath.Join(dir, mainDir, fileName(1)), filepath.Join(dir, agentsDir, "claude", fileName(1))
	read := func(path string) []string {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		return strings.SplitAfter(strings.TrimSuffix(string(b), "\n"), "\n")
	}
	for name, c := range map[string]struct {
		path string
		edit func(lines []string) []string
		log  string
	}{
		"removed":                       {main, func(l []string) []string { return append(l[:3:3], l[4:]...) }, ""},
		"inserted twice":                {main, func(l []string) []string { return append(append(l[:3:3], l[2]), l[3:]...) }, ""},
		"swapped":                       {main, func(l []string) []string { l[2], l[3] = l[3], l[2]; return l }, ""},
		"end of an agent's log removed": {agent, func(l []string) []string { return l[:3] }, "claude"},
		"another chain in an agent's log": {agent, func(l []string) []string {
			out, head := l[:1], zero
			for i := range len(l) - 1 {
				b, err := json.Marshal(Entry{Seq: uint64(i + 1), Type: "test"})
				require.NoError(t, err)
				head = next(head, b)
				out = append(out, head+" "+string(b)+"\n")
			}
			return out
		}, "claude"},
	} {
		t.Run(name, func(t *testing.T) {
			was, err := os.ReadFile(c.path)
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.WriteFile(c.path, was, 0o600)) })
			require.NoError(t, os.WriteFile(c.path, []byte(strings.Join(c.edit(read(c.path)), "")), 0o600))
			again := store(dir)
			check := verified(t, again, "")
			require.False(t, check.Intact, "%+v", check)
			require.Equal(t, c.log, check.Broken.Log)
			require.NotZero(t, check.Broken.Seq)
			note(t, again, "", 1)
			check = verified(t, again, "")
			require.False(t, check.Intact, "and after more entries")
		})
	}
}

func TestALogThatIsFullDropsTheOldestAndSaysSo(t *testing.T) {
	s := store(t.TempDir())
	for i := range 3000 {
		require.NoError(t, s.Append("", Entry{Type: "test", Message: strings.Repeat("x", 1000) + fmt.Sprint(i)}))
	}
	bytes, _, err := measure(s.dir(""))
	require.NoError(t, err)
	require.Less(t, bytes, int64(1<<20)+MaxLine)
	c := verified(t, s, "")
	require.True(t, c.Intact, "%+v", c.Broken)
	require.Greater(t, c.Logs[0].First, uint64(1))
	dropped := 0
	_, err = s.Each(t.Context(), All, func(_ string, r *Receipt) error {
		if r.Type == api.ReceiptDropped {
			dropped++
		}
		return nil
	})
	require.NoError(t, err)
	require.NotZero(t, dropped)
	names, err := s.open[""].names()
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(s.dir(""), names[0])))
	require.False(t, verified(t, s, "").Intact, "a file that someone else removed")
	require.NoError(t, s.Close())
}

func TestLogsOfRemovedAgentsAreKeptAWhile(t *testing.T) {
	s := store(t.TempDir())
	now := time.Now()
	s.Now = func() time.Time { return now }
	s.Lives = func(agent string) bool { return agent == "alive" }
	note(t, s, "alive", 1)
	note(t, s, "dead", 1)
	require.NoError(t, s.heads())
	require.NoError(t, s.Sweep(t.Context()))
	require.Len(t, messages(t, s), 2)
	now = now.Add(2 * time.Hour)
	require.NoError(t, s.Sweep(t.Context()))
	require.Equal(t, []string{"alive:0"}, messages(t, s))
	c := verified(t, s, "")
	require.True(t, c.Intact, "%+v", c.Broken)
	note(t, s, "dead", 1) // another agent got the name
	require.True(t, verified(t, s, "").Intact)
	require.NoError(t, s.Close())
}

// FuzzLog opens any bytes as a log: nothing panics, entries can be added, and what verify calls intact
// has a chain.
// The log of a removed agent occupies no descriptor, and a later entry follows its last one.
func TestLogsOfRemovedAgentsAreClosed(t *testing.T) {
	s := store(t.TempDir())
	lives := true
	s.Lives = func(string) bool { return lives }
	note(t, s, "ann", 2)
	require.NoError(t, s.Rest())
	require.Len(t, s.open, 1, "she lives")
	lives = false
	require.NoError(t, s.Rest())
	require.NotContains(t, s.open, "ann")
	check := verified(t, s, "")
	require.Nil(t, check.Broken)
	require.NotContains(t, s.open, "ann", "it was only read")
	note(t, s, "ann", 1)
	require.Contains(t, s.open, "ann")
	require.NoError(t, s.Rest())
	require.NotContains(t, s.open, "ann")
	_, err := s.Each(t.Context(), Only("ann"), func(_ string, r *Receipt) error {
		require.NotContains(t, string(r.Data), `"clean":false`)
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, []string{"ann:0", "ann:1", "ann:0"}, messages(t, s))
	require.Nil(t, verified(t, s, "").Broken)
	require.NoError(t, s.Close())
}

func FuzzLog(f *testing.F) {
	dir := f.TempDir()
	s := store(dir)
	require.NoError(f, s.Append("", Entry{Type: "test"}, Entry{Type: "test", Data: json.RawMessage(`{"a":1}`)}))
	b, err := os.ReadFile(filepath.Join(dir, mainDir, fileName(1)))
	require.NoError(f, err)
	f.Add(b)
	f.Add([]byte(magic + " 1 " + zero + "\n"))
	f.Add([]byte{})
	f.Add(bytes.Repeat([]byte("x"), 300))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		require.NoError(t, os.MkdirAll(filepath.Join(dir, mainDir), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, mainDir, fileName(1)), b, 0o600))
		s := store(dir)
		require.NoError(t, s.Append("", Entry{Type: "test"}))
		verified(t, s, "")
		require.NoError(t, s.Close())
	})
}
