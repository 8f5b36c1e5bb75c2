package receipt

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/daemon/api/wire"
)

func newCollector(s *Store) *Collector {
	return &Collector{Agent: "alice", Store: func() *Store { return s }, Log: slog.New(slog.DiscardHandler)}
}

// storedOpens returns the paths of all opens in the log, and the entries that say that some are missing.
func storedOpens(t require.TestingT, s *Store) (paths, missed []string) {
	_, err := s.Each(context.Background(), func(string) bool { return true }, func(_ string, r *Receipt) error {
		switch r.Type {
		case api.ReceiptOpens:
			var e opensEntry
			require.NoError(t, json.Unmarshal(r.Data, &e))
			for _, o := range e.Opens {
				paths = append(paths, o.Path)
			}
		case api.ReceiptMissed:
			missed = append(missed, fmt.Sprintf("%d %s", r.Count, r.Message))
		}
		return nil
	})
	require.NoError(t, err)
	return paths, missed
}

func batchOf(life, first uint64, paths ...string) wire.Opens {
	b := wire.Opens{Life: life, Next: first + uint64(len(paths))}
	for _, p := range paths {
		b.List = append(b.List, api.Open{Time: time.Unix(1, 0), Op: "open", Path: p})
	}
	return b
}

func leave(t require.TestingT, dir string, b wire.Opens) string {
	path := filepath.Join(dir, "opens.json")
	text, err := json.Marshal(b)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	return path
}

// TestWhatAShimLeftIsStoredOnce: what polisd had stored before is not stored again, and a shim that was
// killed leaves an entry about it.
func TestWhatAShimLeftIsStoredOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		left   string // "" for batchOf(7, ...), or the text of the file
		file   wire.Opens
		paths  []string
		missed string
	}{
		{name: "the rest", file: batchOf(7, 2, "c", "d"), paths: []string{"a", "b", "c", "d"}},
		{name: "what was stored and not confirmed", file: batchOf(7, 0, "a", "b", "c"), paths: []string{"a", "b", "c"}},
		{name: "nothing", file: batchOf(7, 2), paths: []string{"a", "b"}},
		{name: "of another life", file: batchOf(8, 0, "x"), paths: []string{"a", "b", "x"}},
		{name: "dropped", file: wire.Opens{Life: 7, Next: 2, Dropped: 5}, paths: []string{"a", "b"}, missed: "5 opens of the agent were dropped"},
		{name: "killed", file: wire.Opens{Life: 7, Unfinished: true}, paths: []string{"a", "b"}, missed: "0 the agent's shim was killed"},
		{name: "killed while it wrote", left: `{"life":7,"nex`, paths: []string{"a", "b"}, missed: "0 the agent's shim was killed"},
		{name: "wrong numbers", left: `{"life":7,"next":0,"opens":[{"op":"open"}]}`, paths: []string{"a", "b"}, missed: "0 the agent's shim was killed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := store(t.TempDir())
			defer s.Close()
			require.NoError(t, newCollector(s).keep(batchOf(7, 0, "a", "b")))
			path := leave(t, t.TempDir(), c.file)
			if c.left != "" {
				require.NoError(t, os.WriteFile(path, []byte(c.left), 0o600))
			}
			require.NoError(t, newCollector(s).Left(t.Context(), path))
			require.NoFileExists(t, path)
			require.NoError(t, newCollector(s).Left(t.Context(), path), "once")
			paths, missed := storedOpens(t, s)
			require.Equal(t, c.paths, paths)
			require.Equal(t, c.missed == "", len(missed) == 0)
			if c.missed != "" {
				require.Contains(t, missed[0], c.missed)
			}
		})
	}
}

func TestWhatCannotBeStoredStays(t *testing.T) {
	c := newCollector(nil)
	path := leave(t, t.TempDir(), batchOf(7, 0, "a"))
	require.ErrorIs(t, c.Left(t.Context(), path), errNotStored)
	require.FileExists(t, path)
	c.Fetch = func(context.Context, uint64, uint64, bool) (wire.Opens, error) { return batchOf(7, 0, "a"), nil }
	require.ErrorIs(t, c.step(t.Context(), true), errNotStored)
	require.Zero(t, c.at, "it comes again")
}

// TestPropertyEveryOpenIsStoredOnce, in order, however often polisd dies, and a fetch fails.
func TestPropertyEveryOpenIsStoredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := store(t.TempDir())
		defer s.Close()
		var all []string
		first := uint64(0)
		c := newCollector(s)
		fetch := func(_ context.Context, life, after uint64, _ bool) (wire.Opens, error) {
			if rapid.IntRange(0, 4).Draw(rt, "fails") == 0 {
				return wire.Opens{}, errors.New("gone")
			}
			if life == 7 {
				first = max(first, after)
			}
			n := min(rapid.IntRange(0, 5).Draw(rt, "batch"), len(all)-int(first))
			return batchOf(7, first, all[first:int(first)+n]...), nil
		}
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			if rapid.IntRange(0, 3).Draw(rt, "restart") == 0 {
				c = newCollector(s)
				c.resume(context.Background())
			}
			for range rapid.IntRange(0, 4).Draw(rt, "opens") {
				all = append(all, strings.Repeat("x", rapid.SampledFrom([]int{1, 300, 9000, 30000}).Draw(rt, "length"))+fmt.Sprint(len(all)))
			}
			c.Fetch = fetch
			_ = c.step(context.Background(), true) //nolint:errcheck // it comes again
		}
		path := leave(rt, t.TempDir(), batchOf(7, first, all[first:]...))
		require.NoError(rt, newCollector(s).Left(context.Background(), path))
		paths, missed := storedOpens(rt, s)
		require.Empty(rt, missed)
		require.Len(rt, paths, len(all))
		for i, p := range paths {
			require.Equal(rt, api.Shorten(all[i], 1000)[:1], p[:1])
			if len(all[i]) < 20000 {
				require.Equal(rt, all[i], p)
			}
		}
		_, broken := s.Verify(context.Background(), "")
		require.NoError(rt, broken)
	})
}

// FuzzLeft: whatever is in the file, the entries fit into the log, and have each record once.
func FuzzLeft(f *testing.F) {
	f.Add([]byte(`{"life":7,"next":2,"opens":[{"op":"open","path":"a"},{"op":"rename","path":"\"\\xff\"","to":"b"}]}`))
	f.Add([]byte(`{"life":7,"unfinished":true}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		b, err := parseLeft(text)
		if err != nil {
			return
		}
		n := 0
		for _, e := range opensEntries("alice", b) {
			require.LessOrEqual(t, len(e.Data), maxData)
			require.False(t, bytes.Contains(e.Data, []byte("truncated\":true")))
			var data opensEntry
			require.NoError(t, json.Unmarshal(e.Data, &data))
			n += len(data.Opens)
			require.Equal(t, b.Next-uint64(len(b.List)-n), data.Next)
		}
		require.Equal(t, len(b.List), n)
	})
}
