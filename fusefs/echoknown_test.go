package fusefs

import (
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A program may find a new name before it is shown, by a listing or because it was notified of another change.
// Others that watch see it made all the same, and those that use it lose nothing.
func TestWatchersSeeANameMadeThatAProgramHasFoundAlready(t *testing.T) {
	v := mountView(t)
	require.NoError(t, os.Mkdir(v.raw("d"), 0o755))
	write(t, v.raw("d/replaced"), "old")
	require.Equal(t, "old", content(t, v.in("d/replaced")))
	w := watch(t, v.in("d"))
	write(t, v.raw("d/new"), "new")
	require.NoError(t, os.Link(v.raw("d/new"), v.raw("d/second")))
	require.NoError(t, os.Symlink("to", v.raw("d/link")))
	write(t, v.raw("tmp"), "another")
	require.NoError(t, os.Rename(v.raw("tmp"), v.raw("d/replaced")))
	for _, name := range []string{"new", "second", "link", "replaced"} {
		lstat(t, v.in("d/"+name))
	}
	want := []string{"CREATE link", "CREATE new", "MODIFY new", "CREATE replaced", "MODIFY replaced", "CLOSE_WRITE replaced", "CREATE second", "MODIFY second"}
	// What was read a while after it was written is remembered: then the kernel still knows the old file there.
	if lstat(t, v.in("d/replaced")).Size == int64(len("old")) {
		want = slices.Insert(want, 3, "DELETE replaced")
	}
	open, err := os.OpenFile(v.in("d/new"), os.O_RDWR|os.O_APPEND, 0)
	require.NoError(t, err)
	defer open.Close()
	require.Empty(t, w.events())

	v.shown(t, Change{Path: "d/link", Is: symlink}, Change{Path: "d/new", Is: regular, Content: true}, Change{Path: "d/second", Is: regular, Content: true},
		Change{Path: "d/replaced", Was: regular, Is: regular, Replaced: true, Content: true})
	require.Equal(t, want, w.events(), "no CLOSE_WRITE of what a program has open for writing")
	_, err = open.WriteString(" and more")
	require.NoError(t, err)
	require.Equal(t, "new and more", content(t, v.in("d/second")))
	require.Equal(t, "new and more", content(t, v.in("d/new")))
	require.Equal(t, "another", content(t, v.in("d/replaced")))
	is, err := open.Stat()
	require.NoError(t, err)
	named, err := os.Lstat(v.in("d/second"))
	require.NoError(t, err)
	require.True(t, os.SameFile(is, named), "both names are of the file that the program has open")
	require.Equal(t, int64(len("new and more")), is.Size())
	to, err := os.Readlink(v.in("d/link"))
	require.NoError(t, err)
	require.Equal(t, "to", to)
}
