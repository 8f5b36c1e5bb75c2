package fusefs

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Who watches a file learns of a change made behind the view, and who polls
// sees it; nothing is stored for that.
func TestAChangeBehindTheViewReachesWhoWatches(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/f"), "old")
	require.Equal(t, "old", content(t, v.in("d/f")))
	before := lstat(t, v.in("d/f"))
	w, file := watch(t, v.in("d")), watch(t, v.in("d/f"))

	write(t, v.raw("d/f"), "newer")
	v.fs.InvalidatePath("d/f")
	w.expect(t, "ATTRIB f")
	file.expect(t, "ATTRIB ")
	require.Equal(t, "newer", content(t, v.in("d/f")))
	require.NotEqual(t, before.Mtim, lstat(t, v.in("d/f")).Mtim)

	_, err := os.Lstat(v.in("d/g"))
	require.ErrorIs(t, err, os.ErrNotExist) // and the kernel may remember so
	write(t, v.raw("d/g"), "made")
	v.fs.InvalidatePath("d/g")
	w.expect(t, "ATTRIB g")

	require.NoError(t, os.Remove(v.raw("d/f")))
	v.fs.InvalidatePath("d/f")
	w.expect(t, "ATTRIB ") // the directory itself
	require.NoFileExists(t, v.in("d/f"))

	n, err := unix.Listxattr(v.raw("d/g"), make([]byte, 100))
	require.NoError(t, err)
	require.Zero(t, n)
	require.Empty(t, v.g.writes, "the guard is not called")
	c := helper(t, "setxattr", v.in("d/g"), notifyName)
	c.Stderr = nil
	require.Error(t, c.Run(), "only the server itself may")
}

// A notification follows no link out of the view.
func TestANudgeStaysInTheView(t *testing.T) {
	v := mountView(t)
	outside := t.TempDir()
	write(t, outside+"/f", "")
	require.NoError(t, os.Symlink(outside, v.raw("d")))
	w := watch(t, outside)
	v.fs.InvalidatePath("d/f")
	v.fs.InvalidatePath("../../etc/passwd")
	w.read()
	// A process that another part of the test binary starts can have the file open for a moment longer.
	require.Empty(t, slices.DeleteFunc(w.seen, func(e string) bool { return e == "CLOSE_WRITE f" }))
}
