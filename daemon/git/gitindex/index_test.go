package gitindex

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// repository is a git repository of one object format.
type repository struct {
	t    *testing.T
	dir  string
	hash int
}

func newRepository(t *testing.T, format string) *repository {
	r := &repository{t: t, dir: t.TempDir(), hash: map[string]int{"sha1": 20, "sha256": 32}[format]}
	r.git("", "init", "-q", "--object-format="+format)
	return r
}

func (r *repository) git(stdin string, args ...string) string {
	r.t.Helper()
	cmd := exec.CommandContext(r.t.Context(), "git", args...)
	cmd.Dir = r.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1"}
	cmd.Stdin = strings.NewReader(stdin)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(r.t, err, "git %v: %s", args, errs.String())
	return string(out)
}

func (r *repository) index() []byte {
	b, err := os.ReadFile(filepath.Join(r.dir, ".git", "index"))
	require.NoError(r.t, err)
	return b
}

// fill stages files, one of them with a conflict, one only intended and one not checked out.
func (r *repository) fill() {
	for _, name := range []string{"a", "dir/a", "dir/b", "dir-x", "dir.x", "odd \x01\xff\n", strings.Repeat("l/", 700) + "n"} {
		path := filepath.Join(r.dir, name)
		require.NoError(r.t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(r.t, os.WriteFile(path, []byte(name), 0o644))
	}
	r.git("", "add", "-A")
	require.NoError(r.t, os.WriteFile(filepath.Join(r.dir, "meant"), nil, 0o644))
	r.git("", "add", "-N", "meant")
	r.git("", "update-index", "--skip-worktree", "dir/b")
	id := strings.TrimSpace(r.git("x", "hash-object", "-w", "--stdin"))
	r.git(fmt.Sprintf("100644 %s 1\tboth\x00100644 %s 3\tboth\x00", id, id), "update-index", "-z", "--index-info")
}

func names(x *Index) (list []string) {
	for _, e := range x.Entries {
		list = append(list, e.Name)
	}
	return list
}

func TestParseReadsWhatGitWrites(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		for _, version := range []string{"2", "4"} { // 2 becomes 3 by the extended flags
			r := newRepository(t, format)
			r.fill()
			r.git("", "update-index", "--index-version", version)
			x, err := Parse(r.index(), r.hash)
			require.NoError(t, err)
			require.Equal(t, strings.Split(strings.TrimSuffix(r.git("", "ls-files", "-z"), "\x00"), "\x00"), names(x))
			require.Equal(t, []string{"both"}, x.Conflicts())
			require.True(t, x.HasBelow("dir"))
			require.False(t, x.HasBelow("di"))
			require.False(t, x.HasBelow("a"))
			from, to := x.Below("dir")
			require.Equal(t, []string{"dir/a", "dir/b"}, names(x)[from:to])
			from, to = x.At("both")
			require.Equal(t, 2, to-from)
			from, to = x.At("bot")
			require.Equal(t, from, to)

			// Git reads a part of it, and all of it, as the whole.
			all := make([]int, len(x.Entries))
			for i := range all {
				all[i] = i
			}
			whole := r.git("", "ls-files", "-z", "-s", "-v", "--debug")
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "index"), x.Select(all), 0o644))
			require.Equal(t, whole, r.git("", "ls-files", "-z", "-s", "-v", "--debug"))
			from, to = x.Below("dir")
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "index"), x.Select(all[from:to]), 0o644))
			require.Equal(t, "H dir/a\x00S dir/b\x00", r.git("", "ls-files", "-z", "-v"))
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "index"), x.Select(nil), 0o644))
			require.Empty(t, r.git("", "ls-files"))
		}
	}
}

func TestDifferences(t *testing.T) {
	r := newRepository(t, "sha1")
	r.git("", "config", "core.filemode", "true")
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		require.NoError(t, os.WriteFile(filepath.Join(r.dir, name), []byte(name), 0o644))
	}
	r.git("", "add", "-A")
	before, err := Parse(r.index(), r.hash)
	require.NoError(t, err)
	require.Empty(t, Differences(before, before))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "a"), []byte("new"), 0o644))
	require.NoError(t, os.Chmod(filepath.Join(r.dir, "b"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "f"), nil, 0o644))
	r.git("", "add", "a", "b")
	r.git("", "add", "-N", "f")
	r.git("", "rm", "-q", "--cached", "c")
	r.git("", "update-index", "--assume-unchanged", "e")
	id := strings.TrimSpace(r.git("d", "hash-object", "-w", "--stdin"))
	r.git(fmt.Sprintf("0 %s 0\td\x00100644 %s 2\td\x00100644 %s 3\td\x00", strings.Repeat("0", 40), id, id), "update-index", "-z", "--index-info")
	after, err := Parse(r.index(), r.hash)
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "c", "d", "f"}, Differences(before, after))
	require.Equal(t, []string{"a", "b", "c", "d", "f"}, Differences(after, before))
}

func TestParseRejects(t *testing.T) {
	r := newRepository(t, "sha1")
	r.fill()
	good := r.index()
	x, err := Parse(good, 20)
	require.NoError(t, err)
	sum := func(b []byte) []byte { return append(b, checksum(20, b)...) }
	swapped := &Index{hash: 20, Entries: []Entry{x.Entries[1], x.Entries[0]}}
	r.git("", "update-index", "--split-index")
	for what, b := range map[string][]byte{
		"nothing": nil, "a short file": good[:20], "another format": append([]byte("DIRX"), good[4:]...), "a damaged byte": append(append([]byte{}, good[:60]...), append([]byte{good[60] ^ 1}, good[61:]...)...),
		"names that are not sorted": swapped.Select([]int{0, 1}), "one name twice": x.Select([]int{0, 0}), "a split index": r.index(),
		"too many entries": sum([]byte("DIRC\x00\x00\x00\x02\xff\xff\xff\xff")), "version 5": sum([]byte("DIRC\x00\x00\x00\x05\x00\x00\x00\x00")),
		"a needed extension": sum([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00sdir\x00\x00\x00\x00")), "a short extension": sum([]byte("DIRC\x00\x00\x00\x02\x00\x00\x00\x00TREE\x00\x00\x00\x09")),
	} {
		_, err := Parse(b, 20)
		require.ErrorIs(t, err, ErrFormat, what)
	}
	_, err = Parse(good, 32)
	require.ErrorIs(t, err, ErrFormat)
	unsummed := append(append([]byte{}, good[:len(good)-20]...), make([]byte, 20)...)
	_, err = Parse(unsummed, 20)
	require.NoError(t, err, "git leaves the checksum out if index.skipHash is set")
}

// FuzzParse: no index makes Parse panic, and what it accepts it writes so that it reads the same.
func FuzzParse(f *testing.F) {
	for _, version := range []byte{2, 3, 4} {
		head := []byte{'D', 'I', 'R', 'C', 0, 0, 0, version, 0, 0, 0, 1}
		entry := append(make([]byte, 60), 0, 1, 'a', 0, 0, 0, 0, 0, 0, 0, 0, 0)
		f.Add(append(append(head, entry...), make([]byte, 20)...), false)
	}
	f.Fuzz(func(t *testing.T, b []byte, wide bool) {
		hash := 20
		if wide {
			hash = 32
		}
		if len(b) >= hash {
			clear(b[len(b)-hash:])
		}
		x, err := Parse(b, hash)
		if err != nil {
			return
		}
		all := make([]int, len(x.Entries))
		for i := range all {
			all[i] = i
		}
		again, err := Parse(x.Select(all), hash)
		require.NoError(t, err)
		require.Equal(t, names(x), names(again))
	})
}

// Marks are found and taken away, and nothing else of an entry changes.
func TestMarksAreTakenAway(t *testing.T) {
	for format := range map[string]int{"sha1": 20, "sha256": 32} {
		r := newRepository(t, format)
		r.fill()
		for _, version := range []string{"3", "4"} {
			r.git("", "update-index", "--index-version", version)
			r.git("", "update-index", "--no-skip-worktree", "dir/b")
			plain := r.git("", "ls-files", "--stage", "-v")
			r.git("", "update-index", "--skip-worktree", "dir/b")
			r.git("", "update-index", "--assume-unchanged", "dir/a")
			x, err := Parse(r.index(), r.hash)
			require.NoError(t, err)
			before := bytes.Clone(r.index())
			at := x.Marked()
			require.Len(t, at, 2)
			for _, i := range at {
				require.Equal(t, x.Entries[i].Name == "dir/b", x.Skipped(i))
				fi, err := os.Lstat(filepath.Join(r.dir, x.Entries[i].Name))
				require.NoError(t, err)
				require.True(t, x.SameStat(i, fi))
				x.Unmark(i)
			}
			require.Empty(t, x.Marked())
			require.Equal(t, before, r.index())
			require.NoError(t, os.WriteFile(filepath.Join(r.dir, ".git", "index"), x.Whole(), 0o644))
			require.Equal(t, plain, r.git("", "ls-files", "--stage", "-v"))
			r.git("", "update-index", "--no-assume-unchanged", "dir/a")
		}
	}
}
