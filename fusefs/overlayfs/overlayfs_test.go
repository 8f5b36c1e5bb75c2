package overlayfs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/overlayfs"
)

// layers makes directories whose paths contain what mount options would have to escape.
func layers(t *testing.T) overlayfs.Layers {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := filepath.Join(t.TempDir(), `a,b:c\d e`)
	l := overlayfs.Layers{Lower: []string{filepath.Join(dir, "lower")}, Upper: filepath.Join(dir, "upper"), Work: filepath.Join(dir, "work"), Target: filepath.Join(dir, "merged")}
	for _, d := range []string{l.Lower[0], l.Upper, l.Work, l.Target} {
		require.NoError(t, os.MkdirAll(d, 0o755))
	}
	t.Cleanup(func() { _ = overlayfs.Unmount(l.Target) }) //nolint:errcheck // the next assertion of the test directory's removal fails instead
	return l
}

func TestTheLowerDirectoryNeverChanges(t *testing.T) {
	l := layers(t)
	for name, text := range map[string]string{"kept": "base", "edited": "base", "removed": "base", "moved": "base"} {
		require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], name), []byte(text), 0o644))
	}
	require.NoError(t, os.Mkdir(filepath.Join(l.Lower[0], "dir"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "dir", "in"), []byte("base"), 0o644))
	require.NoError(t, overlayfs.Mount(l))
	there, err := overlayfs.Mounted(l.Target)
	require.NoError(t, err)
	require.True(t, there)

	at := func(name string) string { return filepath.Join(l.Target, name) }
	require.NoError(t, os.WriteFile(at("edited"), []byte("mine"), 0o644))
	require.NoError(t, os.Remove(at("removed")))
	require.NoError(t, os.Rename(at("moved"), at("renamed")))
	require.NoError(t, os.Rename(at("dir"), at("dir2")), "redirect_dir lets a directory of the base be renamed")
	require.NoError(t, os.WriteFile(at("new"), []byte("mine"), 0o644))
	require.ErrorIs(t, unix.Mknod(at("device"), unix.S_IFCHR, 0), unix.EPERM, "no caller makes a whiteout")
	_ = unix.Setxattr(at("new"), "trusted.overlay.opaque", []byte("y"), 0) //nolint:errcheck // Linux 6.7 escapes the name, earlier kernels refuse it
	_, err = unix.Getxattr(filepath.Join(l.Upper, "new"), "trusted.overlay.opaque", nil)
	require.ErrorIs(t, err, unix.ENODATA, "no caller writes the attributes of the overlay")

	for _, name := range []string{"kept", "edited", "removed", "moved", "dir/in"} {
		text, err := os.ReadFile(filepath.Join(l.Lower[0], name))
		require.NoError(t, err)
		require.Equal(t, "base", string(text), name)
	}
	require.NoFileExists(t, filepath.Join(l.Lower[0], "new"))
	text, err := os.ReadFile(at("dir2/in"))
	require.NoError(t, err)
	require.Equal(t, "base", string(text))

	require.NoError(t, overlayfs.Unmount(l.Target))
	require.NoError(t, overlayfs.Unmount(l.Target), "a target without an overlay is unmounted already")
	require.NoError(t, overlayfs.Mount(l), "the changes stay in the upper directory")
	text, err = os.ReadFile(at("edited"))
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoFileExists(t, at("removed"))
}

// An index that was prepared in the lower directory stays valid in the merged one.
func TestInodesAndTimesAreTheLowerOnes(t *testing.T) {
	l := layers(t)
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "f"), []byte("base"), 0o644))
	require.NoError(t, overlayfs.Mount(l))
	var below, above unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(l.Lower[0], "f"), &below))
	require.NoError(t, unix.Stat(filepath.Join(l.Target, "f"), &above))
	require.Equal(t, []any{below.Ino, below.Mtim, below.Ctim, below.Size, below.Uid, below.Mode}, []any{above.Ino, above.Mtim, above.Ctim, above.Size, above.Uid, above.Mode})
	require.NoError(t, os.Chmod(filepath.Join(l.Target, "f"), 0o755))
	var copied unix.Stat_t
	require.NoError(t, unix.Stat(filepath.Join(l.Target, "f"), &copied))
	require.Equal(t, below.Ino, copied.Ino, "the inode number survives the copy")
}

func TestAMountThatFailsLeavesNothing(t *testing.T) {
	l := layers(t)
	l.Work = filepath.Join(l.Upper, "work")
	require.NoError(t, os.Mkdir(l.Work, 0o755))
	require.Error(t, overlayfs.Mount(l), "the work directory may not be in the upper one")
	there, err := overlayfs.Mounted(l.Target)
	require.NoError(t, err)
	require.False(t, there)
	l.Lower = []string{filepath.Join(l.Upper, "missing")}
	require.ErrorIs(t, overlayfs.Mount(l), fs.ErrNotExist)
	there, err = overlayfs.Mounted(filepath.Join(l.Target, "missing"))
	require.NoError(t, err)
	require.False(t, there)
}

// A prepared layer is below the base: it adds names and changes none.
func TestAnEarlierLowerDirectoryHidesALaterOne(t *testing.T) {
	l := layers(t)
	second := filepath.Join(filepath.Dir(l.Upper), "second")
	for name, text := range map[string]string{"lower/tracked": "base", "lower/dir/in": "base", "second/tracked": "prepared", "second/dir/more": "prepared", "second/deps/a": "prepared", "second/dir/in": "prepared"} {
		path := filepath.Join(filepath.Dir(l.Upper), name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "isfile"), []byte("base"), 0o644))
	require.NoError(t, os.Mkdir(filepath.Join(second, "isfile"), 0o755))
	l.Lower = append(l.Lower, second)
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(l.Target, name))
		require.NoError(t, err)
		return string(text)
	}
	all := map[string]string{"tracked": "base", "dir/in": "base", "dir/more": "prepared", "deps/a": "prepared", "isfile": "base"}
	require.NoError(t, overlayfs.Mount(l))
	for name, want := range all {
		require.Equal(t, want, read(name), name)
	}
	require.NoError(t, os.WriteFile(filepath.Join(l.Target, "deps/b"), []byte("mine"), 0o644))
	require.NoFileExists(t, filepath.Join(second, "deps/b"))
	require.NoError(t, overlayfs.Unmount(l.Target))
}

// What is in use stays as it is, and so do the options of the mount.
func TestForgetChangesNothing(t *testing.T) {
	l := layers(t)
	require.NoError(t, os.WriteFile(filepath.Join(l.Lower[0], "f"), []byte("base"), 0o644))
	require.NoError(t, overlayfs.Forget(l.Target), "a directory without an overlay")
	require.NoError(t, overlayfs.Forget(filepath.Join(l.Target, "missing")))
	require.NoError(t, overlayfs.Mount(l))
	line := func() string {
		text, err := os.ReadFile("/proc/self/mountinfo")
		require.NoError(t, err)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "/merged ") && strings.Contains(line, filepath.Base(filepath.Dir(filepath.Dir(filepath.Dir(l.Target))))) {
				return line
			}
		}
		t.Fatal("the overlay is not mounted")
		return ""
	}
	before := line()
	f, err := os.OpenFile(filepath.Join(l.Target, "f"), os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, err = f.WriteString("mine")
	require.NoError(t, err)

	require.NoError(t, overlayfs.Forget(l.Target))
	require.Equal(t, before, line())
	_, err = f.WriteString("+more")
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(l.Target, "f"))
	require.NoError(t, err)
	require.Equal(t, "mine+more", string(text))
}
