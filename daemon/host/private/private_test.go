package private

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/host/acl"
	"polis/internal/need"
)

const (
	ann = 64140
	bob = 64141
)

func umask(t *testing.T, mask int) {
	t.Helper()
	old := unix.Umask(mask)
	t.Cleanup(func() { unix.Umask(old) })
}

func mode(t *testing.T, path string) fs.FileMode {
	t.Helper()
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	return fi.Mode() &^ fs.ModeDir
}

// listOf is the access control list of a file, as text.
func listOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	list, err := acl.Of(int(f.Fd()))
	require.NoError(t, err)
	return string(acl.Encode(list...))
}

func TestModesDoNotDependOnTheUmask(t *testing.T) {
	need.Root(t)
	for _, mask := range []int{0, 0o022, 0o077, 0o777} {
		umask(t, mask)
		top := t.TempDir()
		in := func(name string) string { return filepath.Join(top, name) }
		require.NoError(t, os.Chmod(top, 0o755))
		require.NoError(t, Dir(in("a/root/deep")))
		require.NoError(t, Within(in("b/within/deep")))
		require.NoError(t, Shared(in("shared"), false))
		require.NoError(t, Owned(in("c/owned"), ann, ann))
		require.NoError(t, Group(in("group"), bob))
		require.NoError(t, Group(in("nogroup"), -1))
		_, err := For(in("for"), ann, ann, nil)
		require.NoError(t, err)
		for name, want := range map[string]fs.FileMode{"a": 0o700, "a/root/deep": 0o700, "b": 0o755, "b/within/deep": 0o755, "shared": 0o711, "c": 0o755, "c/owned": 0o700, "group": 0o750, "nogroup": 0o750, "for": 0o750} {
			require.Equal(t, want, mode(t, in(name)), "umask %#o: %s", mask, name)
		}
	}
}

func TestADirectoryOfAnEarlierVersionIsClosed(t *testing.T) {
	need.Root(t)
	top := t.TempDir()
	in := func(name string) string { return filepath.Join(top, name) }
	for _, name := range []string{"root", "within", "shared", "mine", "group", "for"} {
		require.NoError(t, os.Mkdir(in(name), 0o777))
		require.NoError(t, os.Chmod(in(name), 0o777))
	}
	require.NoError(t, Dir(in("root")))
	require.NoError(t, Within(in("within")))
	require.NoError(t, Shared(in("mine"), true))
	require.NoError(t, Shared(in("shared"), false))
	require.NoError(t, Group(in("group"), bob))
	for range 2 {
		byGroup, err := For(in("for"), ann, ann, nil)
		require.NoError(t, err)
		require.False(t, byGroup)
	}
	for name, want := range map[string]fs.FileMode{"root": 0o700, "within": 0o755, "mine": 0o711, "shared": 0o777, "group": 0o750, "for": 0o750} {
		require.Equal(t, want, mode(t, in(name)), name)
	}
	for _, c := range []struct {
		path     string
		uid, gid uint32
		want     bool
	}{
		{"for", ann, 1, true}, {"for", bob, 1, false}, {"for", bob, ann, false}, {"for", bob, 0, false}, {"for", 0, 0, true},
		{"root", ann, ann, false}, {"mine", ann, ann, true}, {"group", ann, bob, true}, {"group", ann, ann, false},
	} {
		got, err := Enters(in(c.path), c.uid, c.gid)
		require.NoError(t, err)
		require.Equal(t, c.want, got, "%+v", c)
	}
	byGroup, err := For(in("root"), 0, 0, nil)
	require.NoError(t, err)
	require.False(t, byGroup)
	require.Equal(t, fs.FileMode(0o700), mode(t, in("root")), "of root alone")
}

func TestNoDirectoryIsGivenToASecondUser(t *testing.T) {
	need.Root(t)
	top := t.TempDir()
	dir, link := filepath.Join(top, "dir"), filepath.Join(top, "link")
	_, err := For(dir, ann, ann, nil)
	require.NoError(t, err)
	before := listOf(t, dir)

	_, err = For(dir, bob, bob, nil)
	require.ErrorIs(t, err, ErrOwner)
	require.ErrorContains(t, err, "uid 64140, not uid 64141")
	require.NoError(t, os.Symlink(dir, link))
	_, err = For(link, ann, ann, nil)
	require.ErrorIs(t, err, unix.ENOTDIR, "a link is not followed")
	require.Equal(t, before, listOf(t, dir))

	fresh := filepath.Join(top, "fresh")
	require.NoError(t, os.Mkdir(fresh, 0o755))
	_, err = For(fresh, ann, ann, func(d *os.File) error {
		require.Equal(t, fresh, d.Name())
		return fs.ErrInvalid
	})
	require.ErrorIs(t, err, fs.ErrInvalid)
	require.Equal(t, fs.FileMode(0o755), mode(t, fresh), "it is not changed")

	bobs := filepath.Join(top, "bobs")
	require.NoError(t, os.Mkdir(bobs, 0o700))
	require.NoError(t, os.Chown(bobs, bob, bob))
	_, err = For(bobs, ann, ann, nil)
	require.ErrorIs(t, err, ErrOwner)
	require.Equal(t, fs.FileMode(0o700), mode(t, bobs))

	file := filepath.Join(top, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, f := range []func(string) error{Dir, Within, func(p string) error { _, err := For(p, ann, ann, nil); return err }, func(p string) error { return Shared(p, true) }, func(p string) error { return Shared(p, false) }} {
		require.ErrorIs(t, f(file), unix.ENOTDIR)
	}
}

// A polisd of an earlier version, after a downgrade, knows no lists: it refuses a workspace whose owner cannot enter
// .polis by the mode bits. The list gives the group nothing.
func TestModeBitsSayThatTheUsersGroupEnters(t *testing.T) {
	need.Root(t)
	dir := filepath.Join(t.TempDir(), "dir")
	for range 2 {
		_, err := For(dir, ann, bob, nil)
		require.NoError(t, err)
		fi, err := os.Stat(dir)
		require.NoError(t, err)
		st := fi.Sys().(*syscall.Stat_t)
		require.Equal(t, []uint32{0, bob, 0o750}, []uint32{st.Uid, st.Gid, st.Mode & 0o777})
		in, err := Enters(dir, 1, bob)
		require.NoError(t, err)
		require.False(t, in)
	}
}

// A directory that inherits a default list, of the directory around it, is closed like any other.
func TestAnInheritedListIsReplaced(t *testing.T) {
	need.Root(t)
	top := t.TempDir()
	require.NoError(t, unix.Setxattr(top, "system.posix_acl_default", acl.Encode(acl.Entry{Tag: acl.UserObj, Perm: 7}, acl.Entry{Tag: acl.User, Perm: 5, ID: bob},
		acl.Entry{Tag: acl.GroupObj}, acl.Entry{Tag: acl.Mask, Perm: 5}, acl.Entry{Tag: acl.Other}), 0))
	fresh, old := filepath.Join(top, "fresh"), filepath.Join(top, "old")
	require.NoError(t, os.Mkdir(old, 0o755))
	require.NoError(t, unix.Setxattr(old, acl.Attribute, acl.Encode(acl.Entry{Tag: acl.UserObj, Perm: 7}, acl.Entry{Tag: acl.User, Perm: 5, ID: bob},
		acl.Entry{Tag: acl.GroupObj, Perm: 5}, acl.Entry{Tag: acl.Mask, Perm: 5}, acl.Entry{Tag: acl.Other, Perm: 5}), 0))
	for _, dir := range []string{fresh, old} {
		_, err := For(dir, ann, ann, nil)
		require.NoError(t, err)
		require.Equal(t, string(listFor(ann)), listOf(t, dir))
	}
}

// The link of an administrator who moved a directory to another disk stays.
func TestALinkToADirectoryIsLeftAsItIs(t *testing.T) {
	need.Root(t)
	top := t.TempDir()
	moved, link := filepath.Join(top, "moved"), filepath.Join(top, "link")
	require.NoError(t, os.Mkdir(moved, 0o755))
	require.NoError(t, os.Symlink(moved, link))
	require.NoError(t, Dir(link))
	require.NoError(t, Within(link))
	require.Equal(t, fs.FileMode(0o755), mode(t, moved))
	require.NoError(t, Dir(filepath.Join(link, "new")))
	require.Equal(t, fs.FileMode(0o700), mode(t, filepath.Join(moved, "new")))
	require.NoError(t, Shared(filepath.Join(link, "run"), true))
}

func TestWithoutListsTheGroupHasAccess(t *testing.T) {
	need.Root(t)
	top := t.TempDir()
	require.NoError(t, unix.Mount("polis-test", top, "ramfs", 0, "")) // it has no attributes
	t.Cleanup(func() { require.NoError(t, unix.Unmount(top, 0)) })
	dir := filepath.Join(top, "dir")
	for range 2 {
		byGroup, err := For(dir, ann, bob, nil)
		require.NoError(t, err)
		require.True(t, byGroup)
		fi, err := os.Stat(dir)
		require.NoError(t, err)
		require.Equal(t, fs.FileMode(0o750), fi.Mode().Perm())
		require.Equal(t, []uint32{0, bob}, []uint32{fi.Sys().(*syscall.Stat_t).Uid, fi.Sys().(*syscall.Stat_t).Gid})
		got, err := Enters(dir, ann, bob)
		require.NoError(t, err)
		require.True(t, got)
	}
}
