package view

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/policy"
	"polis/fusefs/tempfile"
)

// useUnlinked does what programs do with a file that they have open and that has no name.
func useUnlinked(t *testing.T, f *os.File) {
	t.Helper()
	require.NoError(t, f.Truncate(100))
	require.NoError(t, f.Chmod(0o640))
	require.NoError(t, f.Chown(os.Getuid(), os.Getgid()))
	require.NoError(t, unix.Futimes(int(f.Fd()), []unix.Timeval{{Sec: 1}, {Sec: 2}}))
	require.NoError(t, unix.Fallocate(int(f.Fd()), 0, 0, 4096))
	require.NoError(t, unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 0, 10))
	require.NoError(t, unix.Fsetxattr(int(f.Fd()), "user.mine", []byte("x"), 0))
	got := make([]byte, 10)
	n, err := unix.Fgetxattr(int(f.Fd()), "user.mine", got)
	require.NoError(t, err)
	require.Equal(t, "x", string(got[:n]))
	require.NoError(t, unix.Fremovexattr(int(f.Fd()), "user.mine"))
	_, err = f.WriteAt([]byte("content"), 0)
	require.NoError(t, err)
	var in, out int64 = 0, 50
	copied, err := unix.CopyFileRange(int(f.Fd()), &in, int(f.Fd()), &out, 7, 0)
	require.NoError(t, err)
	require.Equal(t, 7, copied)
	again, err := os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = again.Seek(50, io.SeekStart)
	require.NoError(t, err)
	_, err = io.ReadFull(again, got[:7])
	require.NoError(t, err)
	require.Equal(t, "content", string(got[:7]))
	require.NoError(t, again.Truncate(0))
	require.NoError(t, again.Close())
	_, err = f.Seek(0, unix.SEEK_DATA)
	require.ErrorIs(t, err, unix.ENXIO)
	fi, err := f.Stat()
	require.NoError(t, err)
	require.Zero(t, fi.Size())
}

func TestAnUnlinkedTemporaryFileIsUsedAsAnyOther(t *testing.T) {
	v := newTempView(t, oneFile)
	make1 := func(name string) *os.File {
		f, err := os.OpenFile(v.at(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, f.Close()) })
		return f
	}
	f := make1("src/n")
	require.NoError(t, os.Remove(v.at("src/n")))
	useUnlinked(t, f)
	other := make1("src/n") // another file has the name
	useUnlinked(t, f)
	useUnlinked(t, other)
	// It was replaced.
	require.NoError(t, os.Rename(v.at("src/f"), v.at("src/n")))
	useUnlinked(t, other)
	// It was renamed aside.
	require.NoError(t, os.Rename(v.at("src/g"), v.at("src/m")))
	g, err := os.OpenFile(v.at("src/m"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer g.Close()
	require.NoError(t, os.Remove(v.at("src/m")))
	useUnlinked(t, g)
	for i := range 2 * tempfile.Max { // also when many others have come and gone
		name := v.at(fmt.Sprint("src/t", i))
		require.NoError(t, os.WriteFile(name, nil, 0o600))
		require.NoError(t, os.Remove(name))
	}
	for _, f := range []*os.File{f, other, g} {
		useUnlinked(t, f)
		require.Error(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, v.at("src/x2"), unix.AT_SYMLINK_FOLLOW))
		require.Error(t, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", f.Fd()), unix.AT_FDCWD, v.at("src/f"), unix.AT_SYMLINK_FOLLOW))
	}
}

// The rules of its former name apply to a file that was renamed aside also when it was removed, whatever has its
// name by then. What was unlinked without being a temporary file is decided by its path.
func TestAnUnlinkedFileIsReadByTheRulesOfItsFormerName(t *testing.T) {
	v := newTempView(t, policy.Rules{Read: []string{"src/*"}, Write: []string{"src/f", "src/g"}})
	require.NoError(t, os.Rename(v.at("src/f"), v.at("src/n")))
	f, err := os.Open(v.at("src/n"))
	require.NoError(t, err)
	defer f.Close()
	x, err := os.Open(v.at("src/x"))
	require.NoError(t, err)
	defer x.Close()
	require.NoError(t, os.Remove(v.at("src/n")))
	require.NoError(t, os.WriteFile(v.at("src/n"), nil, 0o644))
	require.NoError(t, os.Remove(v.at("src/n")))
	require.NoError(t, os.Remove(v.back+"/src/x"))
	read := func(f *os.File) error { _, err := f.ReadAt(make([]byte, 1), 0); return err }
	reopened := func(f *os.File) error {
		again, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
		if err == nil {
			err = again.Close()
		}
		return err
	}
	require.NoError(t, read(f))
	require.NoError(t, reopened(f))
	v.swap(policy.Rules{Read: []string{"src/*"}, Write: []string{"src/g"}, Deny: []string{"src/f"}})
	require.ErrorIs(t, reopened(f), unix.EACCES)
	require.Error(t, read(f))
	require.Error(t, f.Chmod(0o600))
	require.NoError(t, read(x))
	require.ErrorIs(t, x.Chmod(0o600), unix.EACCES)
	v.swap(policy.Rules{Write: []string{"src/f", "src/g"}})
	require.NoError(t, read(f))
	require.NoError(t, f.Chmod(0o600))
}
