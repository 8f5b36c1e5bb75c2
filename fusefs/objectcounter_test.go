package fusefs

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// objects is how many there are below a directory, each once.
func objects(t require.TestingT, dir string) int64 {
	seen := map[uint64]bool{}
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		fi, err := os.Lstat(p)
		if err == nil {
			seen[fi.Sys().(*syscall.Stat_t).Ino] = true
		}
		return err
	}))
	return int64(len(seen))
}

// What makes and removes files, and what only seems to.
func TestTheObjectCounterGetsTheNumberOfObjects(t *testing.T) {
	v := mountView(t)
	tmp := -1
	for _, step := range []struct {
		name string
		do   func() error
		want int64
	}{
		{"create", func() error { return os.WriteFile(v.in("a"), nil, 0o644) }, 1},
		{"write again", func() error { return os.WriteFile(v.in("a"), []byte("x"), 0o644) }, 1},
		{"mkdir", func() error { return os.Mkdir(v.in("d"), 0o755) }, 2},
		{"mkdir of what is there", func() error { _ = os.Mkdir(v.in("d"), 0o755); return nil }, 2},
		{"symlink", func() error { return os.Symlink("a", v.in("l")) }, 3},
		{"mkfifo", func() error { return unix.Mkfifo(v.in("p"), 0o644) }, 4},
		{"a second name", func() error { return os.Link(v.in("a"), v.in("a2")) }, 4},
		{"rename", func() error { return os.Rename(v.in("a"), v.in("d/a")) }, 4},
		{"rename over another name of the same", func() error { return os.Rename(v.in("d/a"), v.in("a2")) }, 4},
		{"remove one of two names", func() error { return os.Remove(v.in("d/a")) }, 4},
		{"exchange", func() error {
			return unix.Renameat2(unix.AT_FDCWD, v.in("a2"), unix.AT_FDCWD, v.in("d"), unix.RENAME_EXCHANGE)
		}, 4},
		{"rename over", func() error { return os.Rename(v.in("l"), v.in("p")) }, 3},
		{"without a name", func() (err error) {
			tmp, err = unix.Open(v.mnt, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
			return err
		}, 3},
		{"which it gets", func() error {
			return unix.Linkat(unix.AT_FDCWD, backing.ProcPath(tmp), unix.AT_FDCWD, v.in("t"), unix.AT_SYMLINK_FOLLOW)
		}, 4},
		{"and loses while it is open", func() error { return os.Remove(v.in("t")) }, 3},
		{"close", func() error { return unix.Close(tmp) }, 3},
		{"rmdir of what is not empty", func() error {
			require.NoError(t, os.Mkdir(v.in("full"), 0o755))
			require.NoError(t, os.Mkdir(v.in("full/x"), 0o755))
			require.ErrorIs(t, unix.Rmdir(v.in("full")), syscall.ENOTEMPTY)
			return nil
		}, 5},
		{"all", func() error {
			for _, n := range names(t, v.mnt) {
				require.NoError(t, os.RemoveAll(v.in(n)))
			}
			return nil
		}, 0},
	} {
		require.NoError(t, step.do(), step.name)
		require.Equal(t, step.want, v.g.objects.Load(), step.name)
		require.Equal(t, objects(t, v.back), v.g.objects.Load(), step.name)
	}
}

// What counting costs, beside a call that takes tens of microseconds.
func BenchmarkCounted(b *testing.B) {
	v := mountView(b)
	require.NoError(b, os.MkdirAll(v.in("a/deep/directory/of/some"), 0o755))
	n := v.fs.tree.Root
	for _, name := range []string{"a", "deep", "directory", "of", "some"} {
		n = v.fs.tree.At(n, name)
		require.NotNil(b, n)
	}
	b.ReportAllocs()
	for b.Loop() {
		v.fs.counted(n, "file", 1)
	}
}
