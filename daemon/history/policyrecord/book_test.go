package policyrecord

import (
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
	"polis/daemon/history/policylearn"
	"polis/fusefs/policy"
)

func newBook(t interface{ Helper() }, dir string) *Book {
	t.Helper()
	return &Book{Dir: func(agent string) string { return filepath.Join(dir, agent) }, Log: slog.New(slog.DiscardHandler)}
}

func head(life uint64) Header { return Header{Life: life, Role: "r", Created: time.Unix(1, 0).UTC()} }

func TestARecordHasWhatWasUsedAndRefused(t *testing.T) {
	b := newBook(t, t.TempDir())
	require.NoError(t, b.Add("a", head(1), []api.Open{
		{Op: "open", Path: "read"}, {Op: "open-write", Path: `"bad\xff"`, Write: true}, {Op: "mkdir", Path: "new", Write: true, Dir: true},
		{Op: "rename", Path: "from", To: "to", Write: true, Dir: true, Tree: true}, {Op: "setattr", Path: "new", Write: true, Dir: true},
		{Op: "rename", Path: ".git/refs/heads/x", Write: true}, {Op: wire.OpResolve, Path: "example.org."}, {Op: wire.OpResolveDenied, Path: "evil.org"},
		{Op: wire.OpReadDenied, Path: "key.pem"}, {Op: wire.OpWriteDenied, Path: "x", Write: true},
	}, 0))
	require.NoError(t, b.End("a", true))
	r, err := b.Read("a", Select{})
	require.NoError(t, err)
	require.Equal(t, []policylearn.Use{
		{Path: "bad\xff", Write: true}, {Path: "from", Write: true, Tree: true}, {Path: "new", Write: true, Dir: true}, {Path: "new", Write: true, Dir: true, Attr: true},
		{Path: "read"}, {Path: "to", Write: true, Tree: true},
	}, r.Used)
	require.Equal(t, []policylearn.Use{{Path: "key.pem"}, {Path: "x", Write: true}}, r.Denied)
	require.Equal(t, []string{"example.org"}, r.Names)
	require.Equal(t, []string{"evil.org"}, r.Barred)
	require.Empty(t, r.Incomplete)
	require.Len(t, r.Runs, 1)
}

func TestARecordNamesWhatItLacks(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(b *Book) error
		up   bool
		want string
	}{
		{"the shim was killed", func(b *Book) error { return b.End("a", false) }, false, "ended unexpectedly"},
		{"it never ended", func(*Book) error { return nil }, false, "ended unexpectedly"},
		{"it runs", func(*Book) error { return nil }, true, ""},
		{"records were dropped", func(b *Book) error { return b.Add("a", head(1), nil, 3) }, true, "3 uses were dropped"},
		{"too many names", func(b *Book) error {
			var all []api.Open
			for i := range MaxNames + 5 {
				all = append(all, api.Open{Op: wire.OpResolve, Path: fmt.Sprintf("h%d.org", i)})
			}
			return b.Add("a", head(1), all, 0)
		}, true, "more than 1024 names"},
		{"too many paths", func(b *Book) error {
			var all []api.Open
			for i := range policylearn.MaxUses + 5 {
				all = append(all, api.Open{Op: "create", Write: true, Path: fmt.Sprintf("d/%d", i)})
			}
			return b.Add("a", head(1), all, 0)
		}, true, "more paths"},
		{"a path that is too long", func(b *Book) error {
			return b.Add("a", head(1), []api.Open{{Op: "open", Path: strings.Repeat("d/", 3000) + "f"}}, 0)
		}, true, "more paths"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBook(t, t.TempDir())
			require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "x"}}, 0))
			require.NoError(t, tc.do(b))
			for range 2 {
				r, err := b.Read("a", Select{Up: tc.up})
				require.NoError(t, err)
				if tc.want == "" {
					require.Empty(t, r.Incomplete)
				} else {
					require.Contains(t, strings.Join(r.Incomplete, "\n"), tc.want)
				}
				require.NoError(t, b.Close()) // another polisd reads the same
				b = newBook(t, filepath.Dir(b.Dir("a")))
			}
		})
	}
}

func TestRunsAreChosenAndBounded(t *testing.T) {
	dir := t.TempDir()
	b := newBook(t, dir)
	_, err := b.Read("a", Select{})
	require.ErrorIs(t, err, ErrNothing)
	require.NoError(t, b.End("a", true))
	require.NoDirExists(t, b.Dir("a"), "nothing was recorded")
	for i := range MaxRuns + 4 {
		require.NoError(t, b.Add("a", head(uint64(i+1)), []api.Open{{Op: "open", Path: fmt.Sprint("f", i)}, {Op: wire.OpResolve, Path: fmt.Sprintf("h%d.org", i)}}, 0))
		require.NoError(t, b.End("a", i != 0))
	}
	files, err := os.ReadDir(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Len(t, files, MaxRuns)
	r, err := b.Read("a", Select{})
	require.NoError(t, err)
	require.Len(t, r.Used, MaxRuns+4)
	require.Len(t, r.Names, MaxRuns+4)
	require.Equal(t, 5, r.Runs[0].Joined)
	require.Len(t, r.Incomplete, 1, "the first run was cut off, and is joined to others")
	last, err := b.Read("a", Select{Run: -1})
	require.NoError(t, err)
	require.Equal(t, []policylearn.Use{{Path: "f19"}}, last.Used)
	same, err := b.Read("a", Select{Run: last.Runs[0].Run})
	require.NoError(t, err)
	require.Equal(t, last, same)
	_, err = b.Read("a", Select{Run: 999})
	require.ErrorIs(t, err, ErrNothing)
	_, err = b.Read("a", Select{Created: time.Unix(2, 0)})
	require.ErrorIs(t, err, ErrNothing, "of another agent of that name")
}

func TestATornLineIsCutOff(t *testing.T) {
	dir := t.TempDir()
	b := newBook(t, dir)
	require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "x"}}, 0))
	require.NoError(t, b.Close())
	name := filepath.Join(dir, "a", fileName(1))
	f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString(`{"p":"tor`)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "y"}}, 0))
	r, err := b.Read("a", Select{Up: true})
	require.NoError(t, err)
	require.Equal(t, []policylearn.Use{{Path: "x"}, {Path: "y"}}, r.Used)
	require.Equal(t, int64(9), r.Runs[0].Cut)
	l, err := Learn(r, api.LearnedPolicy{Agent: "a", Role: "r"})
	require.NoError(t, err)
	require.Contains(t, l.TOML, "# Run 1: 9 bytes of an entry that polisd had not completed when it ended were cut.\n")
	require.NoError(t, os.WriteFile(name, []byte("no run\n"), 0o600))
	_, err = b.Read("a", Select{})
	require.ErrorContains(t, err, "uses-000001")
	require.NoError(t, b.Close())
	require.NoError(t, b.Add("a", head(1), []api.Open{{Op: "open", Path: "z"}}, 0), "another file begins")
}

// TestPropertyARecordIsWhatWasAdded, however often polisd dies in between and whatever it gets again; and
// a role that is learned from it allows all of it.
func TestPropertyARecordIsWhatWasAdded(t *testing.T) {
	top := t.TempDir()
	n := 0
	name := rapid.OneOf(rapid.StringMatching(`[a-d]{1,2}`), rapid.SampledFrom([]string{"new\nline", "*", "[x", "\xff", `"q"`, "#", "!n", " s ", "a\\", "\x1b[2J", "\u202e"}))
	path := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(name, 1, 4).Draw(t, "names"), "/")
	})
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(top, fmt.Sprint(n))
		b := newBook(t, dir)
		want := map[policylearn.Use]bool{}
		life := uint64(1)
		for range rapid.IntRange(1, 20).Draw(t, "batches") {
			var list []api.Open
			for range rapid.IntRange(0, 8).Draw(t, "records") {
				o := api.Open{Op: "open", Path: path.Draw(t, "path"), Write: rapid.Bool().Draw(t, "write")}
				if o.Write && rapid.IntRange(0, 3).Draw(t, "directory") == 0 {
					o.Op, o.Dir = "mkdir", true
				}
				want[policylearn.Use{Path: o.Path, Write: o.Write, Dir: o.Dir}] = true
				o.Path = api.EncodePath(o.Path)
				list = append(list, o)
			}
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				require.NoError(t, b.Add("a", head(life), list, 0))
			}
			switch rapid.IntRange(0, 5).Draw(t, "then") {
			case 0:
				require.NoError(t, b.Close())
				b = newBook(t, dir)
			case 1:
				require.NoError(t, b.End("a", true))
				life++
			}
		}
		r, err := b.Read("a", Select{})
		require.NoError(t, err)
		got := map[policylearn.Use]bool{}
		for _, u := range r.Used {
			got[u] = true
		}
		require.Equal(t, want, got)
		if len(r.Used) == 0 {
			return
		}
		l, err := policylearn.Learn(r.Used, policy.Rules{}, policylearn.Options{})
		require.NoError(t, err)
		set, err := policy.Compile(l.Rules)
		require.NoError(t, err)
		require.Empty(t, policylearn.Check(set, r.Used))
		require.NoError(t, b.Close())
	})
}

func FuzzReadRun(f *testing.F) {
	f.Add([]byte("{\"run\":{\"life\":1}}\n{\"p\":\"a\",\"w\":true}\n{\"n\":\"x.org\"}\n{\"end\":\"clean\"}\n"))
	f.Add([]byte("{\"run\":{}}\n{\"p\":\"\\\"a\"}\n{\"dropped\":1}\n{\"coarse\":true}\n{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fileName(1)), data, 0o600); err != nil {
			t.Fatal(err)
		}
		r, whole, err := readRun(dir, 1)
		if err != nil {
			return
		}
		require.LessOrEqual(t, whole, int64(len(data)))
		text, err := encode(r.all())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fileName(2)), text, 0o600))
		again, _, err := readRun(dir, 2)
		require.NoError(t, err)
		require.Equal(t, r.used.Uses(), again.used.Uses())
		require.Equal(t, r.denied.Uses(), again.denied.Uses())
		require.Equal(t, r.isCoarse(), again.isCoarse())
	})
}
