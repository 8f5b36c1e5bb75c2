package ownedpath

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/internal/need"
)

const stranger = 12345

// tree has every shape that a path can have. all is a directory that all users may write, sticky one in which only
// owners replace what is theirs, theirs one of another user.
func tree(t *testing.T) (dir string) {
	need.Root(t)
	dir = t.TempDir()
	for _, d := range []string{"a/b", "all/b", "sticky/b", "theirs/b", "group", "real"} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	for _, f := range []string{"a/b/f", "all/b/f", "sticky/b/f", "sticky/f", "sticky/theirs", "theirs/b/f", "theirs/f", "group/f", "real/f", "writable", "of-group", "no-program"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("text"), 0o755))
	}
	for name, target := range map[string]string{
		"link": "real/f", "absolute": filepath.Join(dir, "real/f"), "dirlink": "real", "up": "a/b/../../real/f", "upward": "../../../../../../../../" + filepath.Join(dir, "real"),
		"loop": "loop", "theirs/link": "../real/f", "theirs/dirlink": "../real", "all/link": "../real/f", "sticky/link": "../real/f", "sticky/theirlink": "../real/f",
		"by-theirs": "theirs/link", "by-theirs-dir": "theirs/b", "by-all": "all/b/f", "theirlink": "real/f", "dangling": "none", "a/b/back": "../..",
		"proc": "/proc/self/root" + filepath.Join(dir, "real/f"),
	} {
		require.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	for _, p := range []string{"theirs", "sticky/theirs", "sticky/theirlink", "theirlink"} {
		require.NoError(t, os.Lchown(filepath.Join(dir, p), stranger, stranger))
	}
	for p, mode := range map[string]os.FileMode{"all": 0o777, "sticky": 0o777 | os.ModeSticky, "group": 0o775, "writable": 0o757, "of-group": 0o775, "no-program": 0o644} {
		require.NoError(t, os.Chmod(filepath.Join(dir, p), mode))
	}
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o700))
	return dir
}

// shapes are the paths below the tree. program is the real path of one that is a program, "" if it is refused.
var shapes = map[string]struct {
	program string
	read    bool
}{
	"a/b/f":            {"a/b/f", true},
	"a/./b//f":         {"a/b/f", true},
	"a/b/../b/f":       {"a/b/f", true},
	"all/b/f":          {"", false},
	"sticky/b/f":       {"sticky/b/f", true},
	"sticky/f":         {"sticky/f", true},
	"sticky/theirs":    {"", false},
	"theirs/b/f":       {"", false}, // root's file in root's directory, in a directory that another user can rename it from
	"theirs/f":         {"", false},
	"theirs/../a/b/f":  {"", false},
	"group/f":          {"", false},
	"writable":         {"", false},
	"of-group":         {"", false},
	"no-program":       {"", true},
	"link":             {"real/f", false},
	"absolute":         {"real/f", false},
	"dirlink/f":        {"real/f", true},
	"up":               {"real/f", false},
	"upward/f":         {"real/f", true},
	"a/b/back/real/f":  {"real/f", true},
	"loop":             {"", false},
	"loop/f":           {"", false},
	"theirs/link":      {"", false},
	"theirs/dirlink/f": {"", false},
	"all/link":         {"", false},
	"sticky/link":      {"real/f", false},
	"sticky/theirlink": {"", false},
	"by-theirs":        {"", false},
	"by-theirs-dir/f":  {"", false},
	"by-all":           {"", false},
	"theirlink":        {"", false},
	"dangling":         {"", false},
	"dangling/f":       {"", false},
	"a/b/f/x":          {"", false},
	"a/b":              {"", false},
	"none":             {"", false},
	"pipe":             {"", false},
	"..":               {"", false},
}

func TestOnlyPathsThatNobodyElseCanReplaceAreUsed(t *testing.T) {
	dir := tree(t)
	for path, want := range shapes {
		t.Run(path, func(t *testing.T) {
			path := dir + "/" + path
			got, err := Program(path, 0)
			if want.program == "" {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
				require.Equal(t, filepath.Join(dir, want.program), got)
			}
			f, err := Read(path, 0)
			if !want.read {
				require.Error(t, err)
				return
			}
			require.NoError(t, err)
			b, err := io.ReadAll(f)
			require.NoError(t, err)
			require.NoError(t, f.Close())
			require.Equal(t, "text", string(b))
		})
	}
}

func TestTheCallersOwnFilesAreGood(t *testing.T) {
	dir := tree(t)
	_, err := Program(filepath.Join(dir, "sticky/theirs"), 0)
	require.ErrorContains(t, err, "sticky/theirs belongs to uid 12345: it must belong to root")
	got, err := Program(filepath.Join(dir, "sticky/theirs"), stranger)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, "sticky/theirs"), got)
	_, err = Program("sticky/theirs", 0)
	require.ErrorContains(t, err, "must be an absolute path")
	_, err = Read("/", 0)
	require.Error(t, err)
}

// TestAMagicLinkIsNotFollowed: it leads elsewhere than its text.
func TestAMagicLinkIsNotFollowed(t *testing.T) {
	dir := tree(t)
	f, err := os.Open(filepath.Join(dir, "theirs/f"))
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, os.Remove(filepath.Join(dir, "theirs/f")))
	fds, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, e := range fds {
		_, err := Read("/proc/self/fd/"+e.Name()+"/x", 0)
		require.Error(t, err)
		if target, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && filepath.Base(target) == "f (deleted)" {
			_, err := Program("/proc/self/fd/"+e.Name(), stranger)
			require.ErrorIs(t, err, os.ErrNotExist)
		}
	}
}

func TestNoDescriptorStaysOpen(t *testing.T) {
	dir := tree(t)
	count := func() int {
		fds, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		return len(fds)
	}
	before := count()
	for path := range shapes {
		_, _ = Program(dir+"/"+path, 0)
		if f, err := Read(dir+"/"+path, 0); err == nil {
			require.NoError(t, f.Close())
		}
	}
	require.Equal(t, before, count())
}
