package overlayfs_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// changesOf lists the changes of a mount.
func changesOf(t *testing.T, l overlayfs.Layers, most int) ([]string, error) {
	t.Helper()
	lower, err := os.Open(l.Lower[0])
	require.NoError(t, err)
	defer lower.Close()
	upper, err := os.Open(l.Upper)
	require.NoError(t, err)
	defer upper.Close()
	list, err := overlayfs.Changes(t.Context(), lower, upper, ".git", most)
	slices.Sort(list)
	return list, err
}

func TestChangesAreThoseOfTheUpperLayer(t *testing.T) {
	l := layers(t)
	for _, name := range []string{"kept", "edited", "removed", "moved", "dir/kept", "dir/edited", "dir/sub/deep/edited", "gone/in", "renamed/in", "renamed/more", "emptied/in", "becomes file/in", "becomes dir", "touched/in", "closed/in"} {
		path := filepath.Join(l.Lower[0], name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("base"), 0o644))
	}
	require.NoError(t, overlayfs.Mount(l))
	none, err := changesOf(t, l, 0)
	require.NoError(t, err)
	require.Empty(t, none)
	at := func(name string) string { return filepath.Join(l.Target, name) }
	write := func(name string) { require.NoError(t, os.WriteFile(at(name), []byte("mine"), 0o644)) }
	for _, name := range []string{"edited", "dir/edited", "dir/sub/deep/edited", "new", "dir/sub/new"} {
		write(name)
	}
	require.NoError(t, os.MkdirAll(at("made/below"), 0o755))
	write("made/below/in")
	require.NoError(t, os.Mkdir(at("dir/.git"), 0o755))
	write("dir/.git/config")
	require.NoError(t, os.Remove(at("removed")))
	require.NoError(t, os.Rename(at("moved"), at("dir/moved")))
	require.NoError(t, os.RemoveAll(at("gone")))
	require.NoError(t, os.Rename(at("renamed"), at("to")))
	require.NoError(t, os.RemoveAll(at("emptied")))
	require.NoError(t, os.Mkdir(at("emptied"), 0o755))
	require.NoError(t, os.RemoveAll(at("becomes file")))
	write("becomes file")
	require.NoError(t, os.Remove(at("becomes dir")))
	require.NoError(t, os.Mkdir(at("becomes dir"), 0o755))
	write("becomes dir/in")
	require.NoError(t, os.Symlink("kept", at("symbolic")))
	require.NoError(t, unix.Mkfifo(at("pipe"), 0o644))
	require.NoError(t, os.Chmod(at("touched"), 0o700)) // no file of it changes
	require.NoError(t, os.Chmod(at("closed"), 0o644))  // its owner finds no file in it
	want := []string{"becomes dir", "becomes file", "closed", "dir/edited", "dir/moved", "dir/sub/deep/edited", "dir/sub/new", "edited", "emptied", "gone", "made", "moved", "new", "pipe", "removed",
		"renamed", "symbolic", "to"}
	got, err := changesOf(t, l, 100)
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = changesOf(t, l, len(want)-1)
	require.ErrorIs(t, err, overlayfs.ErrManyChanges)

	// What any user may write only makes a directory one path.
	if err := unix.Setxattr(at("dir"), "user.overlay.opaque", []byte("y"), 0); err == nil {
		got, err = changesOf(t, l, 100)
		require.NoError(t, err)
		require.Contains(t, got, "dir")
	}
}
