package tempfile

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// tree is a directory with files, and a table of it.
type tree struct {
	t *testing.T
	*Table
	dir, record string
}

func newTree(t *testing.T) *tree {
	t.Helper()
	tr := &tree{t: t, dir: t.TempDir(), record: filepath.Join(t.TempDir(), RecordName)}
	tr.open()
	t.Cleanup(func() { require.NoError(t, tr.Close()) })
	return tr
}

func (tr *tree) open() {
	tr.t.Helper()
	root, err := os.Open(tr.dir)
	require.NoError(tr.t, err)
	defer root.Close()
	tr.Table, err = Open(int(root.Fd()), func() (int, error) {
		return unix.Open(filepath.Dir(tr.record), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	require.NoError(tr.t, err)
}

// again is the table of another process.
func (tr *tree) again() {
	tr.t.Helper()
	require.NoError(tr.t, tr.Close())
	tr.open()
}

func (tr *tree) write(path, text string) {
	tr.t.Helper()
	path = filepath.Join(tr.dir, path)
	require.NoError(tr.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(tr.t, os.WriteFile(path, []byte(text), 0o644))
}

// temp makes a temporary file.
func (tr *tree) temp(path, of, text string) {
	tr.t.Helper()
	require.NoError(tr.t, tr.Reserve(path, of))
	tr.write(path, text)
	tr.mark(path, path, of)
}

func (tr *tree) mark(at, path, of string) {
	tr.t.Helper()
	fd, err := unix.Open(filepath.Join(tr.dir, at), unix.O_PATH|unix.O_NOFOLLOW, 0)
	require.NoError(tr.t, err)
	defer unix.Close(fd)
	require.NoError(tr.t, Set(fd, path, of))
}

func (tr *tree) is(path string) bool {
	f := tr.Look(path)
	if f != nil {
		f.Close()
	}
	return f != nil
}

func TestAMarkCountsUnderItsPathOnly(t *testing.T) {
	tr := newTree(t)
	tr.temp("d/a", "f", "x")
	f := tr.Look("d/a")
	require.NotNil(t, f)
	require.Equal(t, "f", f.Of)
	f.Close()
	require.NoError(t, os.Link(filepath.Join(tr.dir, "d/a"), filepath.Join(tr.dir, "d/b")))
	require.NoError(t, os.MkdirAll(filepath.Join(tr.dir, "e"), 0o755))
	require.NoError(t, os.Link(filepath.Join(tr.dir, "d/a"), filepath.Join(tr.dir, "e/a")))
	require.False(t, tr.is("d/b"))
	require.False(t, tr.is("e/a"))
	require.NoError(t, os.Remove(filepath.Join(tr.dir, "d/a")))
	tr.write("d/a", "another file")
	require.False(t, tr.is("d/a"), "the path alone does not count")
	require.NoError(t, os.Remove(filepath.Join(tr.dir, "d/a")))
	require.NoError(t, os.Symlink("b", filepath.Join(tr.dir, "d/a")))
	require.False(t, tr.is("d/a"))
	require.NoError(t, os.Symlink("d", filepath.Join(tr.dir, "link")))
	require.False(t, tr.is("link/b"))
	require.False(t, tr.is("../"+filepath.Base(tr.dir)+"/d/b"))
}

func TestOnlyRegularFilesAreMarked(t *testing.T) {
	tr := newTree(t)
	require.NoError(t, os.Mkdir(filepath.Join(tr.dir, "d"), 0o755))
	require.NoError(t, os.Symlink("x", filepath.Join(tr.dir, "l")))
	require.NoError(t, unix.Mkfifo(filepath.Join(tr.dir, "p"), 0o644))
	for _, name := range []string{"d", "l", "p"} {
		fd, err := unix.Open(filepath.Join(tr.dir, name), unix.O_PATH|unix.O_NOFOLLOW, 0)
		require.NoError(t, err)
		require.ErrorIs(t, Set(fd, name, ""), unix.EINVAL, name)
		require.NoError(t, unix.Close(fd))
	}
	tr.write("f", "")
	require.NoError(t, os.Link(filepath.Join(tr.dir, "f"), filepath.Join(tr.dir, "g")))
	fd, err := unix.Open(filepath.Join(tr.dir, "g"), unix.O_PATH, 0)
	require.NoError(t, err)
	defer unix.Close(fd)
	require.ErrorIs(t, SetNew(fd, "g"), unix.EINVAL, "a file with other names is not new")
}

func TestTheRecordOutlivesTheProcess(t *testing.T) {
	tr := newTree(t)
	tr.temp("a", "", "1")
	tr.temp("d/b", "f", "2")
	tr.temp("c", "", "3")
	tr.write("ordinary", "")
	require.NoError(t, tr.Reserve("ordinary", ""))
	require.NoError(t, tr.Reserve("missing", ""))
	tr.End("c")
	require.NoError(t, os.Remove(filepath.Join(tr.dir, "c")))
	tr.again()
	require.Equal(t, []string{"a", "d/b"}, tr.Paths())
	of, ok := tr.Known("d/b")
	require.Equal(t, []any{"f", true}, []any{of, ok})

	// A crash while it is written leaves a part of a path at its end.
	out, err := os.OpenFile(tr.record, os.O_WRONLY|os.O_APPEND, 0)
	require.NoError(t, err)
	_, err = out.WriteString("a/part")
	require.NoError(t, err)
	require.NoError(t, out.Close())
	tr.again()
	require.Equal(t, []string{"a", "d/b"}, tr.Paths())
	// Without the record, a file is known when it is used.
	require.NoError(t, os.Remove(tr.record))
	tr.again()
	require.Empty(t, tr.Paths())
	require.True(t, tr.is("d/b"))
	require.Equal(t, []string{"d/b"}, tr.Paths())
}

func TestTemporaryFilesAreBounded(t *testing.T) {
	tr := newTree(t)
	for i := range Max {
		tr.temp(fmt.Sprint(i), "", "")
	}
	require.ErrorIs(t, tr.Reserve("more", ""), ErrFull)
	require.NoError(t, tr.Reserve("7", ""), "it has its place")
	require.NoError(t, os.Remove(filepath.Join(tr.dir, "5")))
	require.NoError(t, tr.Reserve("more", ""), "one is gone")
	// The record and the memory do not grow with the number of files that come and go.
	for i := range 4 * Max {
		tr.End(fmt.Sprint("m", i-1))
		tr.End("more")
		require.NoError(t, tr.Reserve(fmt.Sprint("m", i), ""))
	}
	require.LessOrEqual(t, len(tr.files), Max)
	fi, err := os.Stat(tr.record)
	require.NoError(t, err)
	require.Less(t, fi.Size(), int64(maxRecord))
}

func TestFilesThatMayBeWrittenAreNoTemporaryFiles(t *testing.T) {
	tr := newTree(t)
	tr.temp("a", "", "1")
	tr.temp("b", "", "2")
	require.NoError(t, tr.Permit(func(p string) bool { return p == "a" }))
	require.False(t, tr.is("a"))
	require.True(t, tr.is("b"))
	require.Equal(t, []string{"b"}, tr.Paths())
	require.NoError(t, (*Table)(nil).Permit(nil))
}

// What Sweep removes is elsewhere, or contains nothing.
func TestSweepKeepsTheOnlyCopies(t *testing.T) {
	writable := func(p string) bool { return strings.HasPrefix(filepath.Base(p), "w") }
	for name, tc := range map[string]struct {
		make func(tr *tree)
		gone bool
	}{
		"empty":                               {func(tr *tree) { tr.temp("d/t", "", "") }, true},
		"a copy":                              {func(tr *tree) { tr.write("d/w", "text"); tr.temp("d/t", "", "text") }, true},
		"a copy of what is not the agent's":   {func(tr *tree) { tr.write("d/x", "text"); tr.temp("d/t", "", "text") }, false},
		"a copy elsewhere":                    {func(tr *tree) { tr.write("w", "text"); tr.temp("d/t", "", "text") }, false},
		"another content":                     {func(tr *tree) { tr.write("d/w", "tent"); tr.temp("d/t", "", "text") }, false},
		"the file it was is gone":             {func(tr *tree) { tr.temp("d/t", "w", "text") }, false},
		"the file it was differs":             {func(tr *tree) { tr.write("d/w", "else"); tr.temp("d/t", "w", "text") }, false},
		"the file it was has the content":     {func(tr *tree) { tr.write("d/w", "text"); tr.temp("d/t", "w", "text") }, true},
		"another file has the content":        {func(tr *tree) { tr.write("d/w2", "text"); tr.temp("d/t", "w", "text") }, false},
		"empty, and the file it was is gone":  {func(tr *tree) { tr.temp("d/t", "w", "") }, false},
		"empty, and the file it was is there": {func(tr *tree) { tr.write("d/w", "text"); tr.temp("d/t", "w", "") }, true},
		"a copy in a link": {func(tr *tree) {
			tr.write("d/other", "text")
			tr.temp("d/t", "w", "text")
			require.NoError(t, os.Symlink("other", filepath.Join(tr.dir, "d/w")))
		}, false},
		"the same file": {func(tr *tree) {
			tr.temp("d/t", "w", "text")
			require.NoError(t, os.Link(filepath.Join(tr.dir, "d/t"), filepath.Join(tr.dir, "d/w")))
		}, true},
		"another file has taken its name": {func(tr *tree) {
			tr.temp("d/t", "", "")
			require.NoError(t, os.Remove(filepath.Join(tr.dir, "d/t")))
			tr.write("d/t", "")
		}, false},
		"too large to compare": {func(tr *tree) {
			tr.write("d/w", "")
			tr.temp("d/t", "w", "")
			require.NoError(t, os.Truncate(filepath.Join(tr.dir, "d/w"), sweepBytes+1))
			require.NoError(t, os.Truncate(filepath.Join(tr.dir, "d/t"), sweepBytes+1))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			tr := newTree(t)
			tc.make(tr)
			kept, removed := (&Sweeper{Table: tr.Table, Writable: writable}).Sweep()
			_, err := os.Lstat(filepath.Join(tr.dir, "d/t"))
			require.Equal(t, tc.gone, os.IsNotExist(err))
			require.Equal(t, tc.gone, removed == 1)
			if name != "another file has taken its name" {
				require.Equal(t, !tc.gone, len(kept) == 1)
			}
		})
	}
	t.Run("something below would show", func(t *testing.T) {
		tr := newTree(t)
		tr.temp("t", "", "")
		kept, removed := (&Sweeper{Table: tr.Table, Writable: writable, Covers: func(string) bool { return true }}).Sweep()
		require.Equal(t, []string{"t"}, kept)
		require.Zero(t, removed)
	})
}

func TestMarksAreBoundToPathAndName(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		path := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b"}).Draw(t, "path")
		other := rapid.SampledFrom([]string{"a", "b", "d/a", "d/b"}).Draw(t, "other")
		of := rapid.SampledFrom([]string{"", "f", "a", strings.Repeat("n", 255)}).Draw(t, "of")
		got, ok := ParseMark(other, Mark(path, of))
		require.Equal(t, path == other, ok)
		if ok {
			require.Equal(t, of, got)
		}
	})
}

func FuzzParseMark(f *testing.F) {
	f.Add("a", []byte("x"))
	f.Add("d/a", Mark("d/a", "f"))
	f.Add("d/a", Mark("d/a", "../x"))
	f.Fuzz(func(t *testing.T, path string, mark []byte) {
		of, ok := ParseMark(path, mark)
		if ok && (string(Mark(path, of)) != string(mark) || strings.ContainsAny(of, "/\x00") || of == "..") {
			t.Fatalf("%q %q: %q", path, mark, of)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add([]byte("a\x00b/c\x00d"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range parseRecord(b) {
			if p == "" || strings.ContainsRune(p, 0) || len(p) > unix.PathMax {
				t.Fatalf("%q", p)
			}
		}
	})
}
