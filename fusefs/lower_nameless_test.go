package fusefs

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/backing"
)

// changesNameless checks that a file which must not be changed can be, by a descriptor and after its name
// has gone, and is as it was for all others.
func changesNameless(t *testing.T, path string, lose func() error) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	fd := int(f.Fd())
	before, text := fstatOf(t, fd), content(t, path)
	require.NoError(t, lose())
	require.NoError(t, unix.Fchmod(fd, 0o751))
	require.NoError(t, unix.Fchown(fd, 12, 34))
	require.NoError(t, unix.Fsetxattr(fd, "user.a", []byte("b"), 0))
	after := fstatOf(t, fd)
	require.Equal(t, []uint32{0o751, 12, 34, 0}, []uint32{after.Mode & 0o7777, after.Uid, after.Gid, uint32(after.Nlink)})
	require.Equal(t, before.Ino, after.Ino)
	same := make([]byte, len(text))
	_, err = f.ReadAt(same, 0)
	require.NoError(t, err)
	require.Equal(t, text, string(same))

	w, err := os.OpenFile(backing.ProcPath(fd), os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(t, err)
	_, err = w.WriteString("new")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.EqualValues(t, 3, fstatOf(t, fd).Size)
	now := make([]byte, 3)
	_, err = f.ReadAt(now, 0)
	require.NoError(t, err)
	require.Equal(t, "new", string(now))
}

// A file of the project can be changed after the agent has removed its name, as any file.
func TestAFileOfTheProjectWithoutANameCanBeChanged(t *testing.T) {
	p := mountProject(t, fillProject(t))
	needTmpfile(t, p.back)
	before := dump(t, p.low)
	t.Run("removed", func(t *testing.T) {
		changesNameless(t, p.in(".env"), func() error { return os.Remove(p.in(".env")) })
	})
	t.Run("replaced", func(t *testing.T) {
		write(t, p.in("new"), "of the agent")
		changesNameless(t, p.in(".env.local"), func() error { return os.Rename(p.in("new"), p.in(".env.local")) })
		require.Equal(t, "of the agent", content(t, p.in(".env.local")))
	})
	t.Run("a link of several", func(t *testing.T) {
		changesNameless(t, p.in("node_modules/a/index.js"), func() error { return os.Remove(p.in("node_modules/a/index.js")) })
		require.Equal(t, "a", content(t, p.in("node_modules/a/twin.js")))
	})
	require.Equal(t, before, dump(t, p.low), "the project")
}

// A package's file that agents share can be changed after its name has gone, and stays as it is for the others.
func TestASharedInodeWithoutANameCanBeChanged(t *testing.T) {
	views, _ := mountStore(t, 2)
	const text = "module.exports = 1\n"
	for _, v := range views {
		f := v.put(t, text, text)
		require.NoError(t, os.Mkdir(v.in("node_modules"), 0o755))
		for _, name := range []string{"one.js", "two.js"} {
			require.NoError(t, os.Link(f, v.in("node_modules/"+name)))
		}
	}
	one := views[0].in("node_modules/one.js")
	changesNameless(t, one, func() error { return os.Remove(one) })
	for _, name := range []string{views[0].in("node_modules/two.js"), views[1].in("node_modules/one.js")} {
		require.Equal(t, text, content(t, name))
		_, err := unix.Getxattr(name, "user.a", nil)
		require.ErrorIs(t, err, unix.ENODATA)
	}
}
