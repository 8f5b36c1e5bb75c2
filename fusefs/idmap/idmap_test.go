package idmap_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/idmap"
	"polis/internal/need"
)

const user = 65534

func needRoot(t *testing.T) {
	t.Helper()
	need.Root(t)
}

func opened(t *testing.T, path string) *os.File {
	dir, err := os.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { dir.Close() })
	return dir
}

func ownerOf(t *testing.T, path string) (uid, gid uint32) {
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	return st.Uid, st.Gid
}

// asUser runs f with the file system identity of a user.
func asUser(id int, f func() error) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer unix.Setfsgid(0) //nolint:errcheck // the test's own
	defer unix.Setfsuid(0) //nolint:errcheck // the test's own
	if err := unix.Setfsgid(id); err != nil {
		return err
	}
	if err := unix.Setfsuid(id); err != nil {
		return err
	}
	return f()
}

func TestRootsTreeIsTheUsersAndStaysRoots(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "private")
	require.NoError(t, os.WriteFile(file, []byte("x"), 0o600))
	theirs := filepath.Join(dir, "theirs")
	require.NoError(t, os.WriteFile(theirs, nil, 0o600))
	require.NoError(t, os.Chown(theirs, user, user))
	other := filepath.Join(dir, "other")
	require.NoError(t, os.WriteFile(other, nil, 0o600))
	require.NoError(t, os.Chown(other, 1234, 1234))

	tree, err := idmap.Open(opened(t, dir), user, user)
	require.NoError(t, err)
	defer tree.Close()
	open := func(name string, flags int) error {
		return asUser(user, func() error {
			fd, err := unix.Openat(int(tree.Fd()), name, flags|unix.O_CLOEXEC, 0o640)
			if err == nil {
				err = unix.Close(fd)
			}
			return err
		})
	}
	require.NoError(t, open("private", unix.O_RDWR))
	require.NoError(t, open("made", unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY))
	require.ErrorIs(t, open("theirs", unix.O_RDONLY), unix.EACCES, "the user's own are root's here")
	require.ErrorIs(t, open("other", unix.O_RDONLY), unix.EACCES)
	uid, gid := ownerOf(t, filepath.Join(dir, "made"))
	require.Zero(t, uid)
	require.Zero(t, gid)
	var st unix.Stat_t
	for name, want := range map[string]uint32{"private": user, "theirs": 0, "other": 1234} {
		require.NoError(t, unix.Fstatat(int(tree.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW))
		require.Equal(t, want, st.Uid, name)
		require.Equal(t, want, st.Gid, name)
	}
	require.ErrorIs(t, asUser(user, func() error { _, err := os.ReadFile(file); return err }), os.ErrPermission, "and the path is what it was")
}

// TestTheOpenDirectoryIsShown: its path leads elsewhere meanwhile.
func TestTheOpenDirectoryIsShown(t *testing.T) {
	needRoot(t)
	dir := t.TempDir()
	for _, name := range []string{"mine", "roots"} {
		require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name, name), nil, 0o644))
	}
	mine := opened(t, filepath.Join(dir, "mine"))
	require.NoError(t, os.Rename(filepath.Join(dir, "mine"), filepath.Join(dir, "away")))
	require.NoError(t, os.Symlink("roots", filepath.Join(dir, "mine")))
	tree, err := idmap.Open(mine, user, user)
	require.NoError(t, err)
	defer tree.Close()
	var st unix.Stat_t
	require.NoError(t, unix.Fstatat(int(tree.Fd()), "mine", &st, 0))
	require.ErrorIs(t, unix.Fstatat(int(tree.Fd()), "roots", &st, 0), unix.ENOENT)
}

func TestWhatCannotBeShownIsSaid(t *testing.T) {
	needRoot(t)
	_, err := idmap.Open(opened(t, "/proc"), user, user)
	require.ErrorIs(t, err, idmap.ErrUnsupported)
	_, err = idmap.Open(opened(t, t.TempDir()), 0, user)
	require.ErrorContains(t, err, "root")
	for _, id := range []uint32{1, 2, user, 1<<32 - 2} {
		tree, err := idmap.Open(opened(t, t.TempDir()), id, id)
		require.NoError(t, err, "%d", id)
		require.NoError(t, tree.Close())
	}
}
