package configfile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/asuser"
	"polis/internal/need"
)

func good(context.Context, string) error { return nil }

func put(t *testing.T, path, text string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

func get(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

func TestAFileBehindALinkKeepsItsOwnerAndMode(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.toml"), filepath.Join(dir, "polisd.toml")
	put(t, real, "a", 0o640)
	require.NoError(t, os.Chown(real, 65534, 65533))
	require.NoError(t, os.Chmod(real, 0o640))
	require.NoError(t, os.Symlink("real.toml", link))
	put(t, filepath.Join(dir, ".real.toml.new"), "what a crash left", 0o600)
	var seen string
	f := File{Path: link, Check: func(_ context.Context, path string) error {
		seen = get(t, path)
		return nil
	}}
	require.NoError(t, f.Writable())
	require.NoError(t, f.Edit(t.Context(), func(text string) (string, error) { return text + "b", nil }))
	require.Equal(t, "ab", seen)
	require.Equal(t, "ab", get(t, real))
	fi, err := os.Lstat(link)
	require.NoError(t, err)
	require.Equal(t, fs.ModeSymlink, fi.Mode().Type(), "the link stays")
	fi, err = os.Stat(real)
	require.NoError(t, err)
	st, ok := fi.Sys().(*syscall.Stat_t)
	require.True(t, ok)
	require.Equal(t, []uint32{65534, 65533, 0o640}, []uint32{st.Uid, st.Gid, st.Mode & 0o7777})
	require.NoFileExists(t, filepath.Join(dir, ".real.toml.new"))
}

func TestARefusedChangeLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "polisd.toml")
	f := File{Path: path, Check: good}
	require.NoError(t, f.Edit(t.Context(), func(string) (string, error) { return "new", nil }))
	fi, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), fi.Mode())
	refusal := errors.New("refused")
	f.Check = func(context.Context, string) error { return refusal }
	require.ErrorIs(t, f.Edit(t.Context(), func(string) (string, error) { return "other", nil }), refusal)
	require.ErrorIs(t, f.Edit(t.Context(), func(string) (string, error) { return "", refusal }), refusal)
	require.NoError(t, f.Edit(t.Context(), func(text string) (string, error) { return text, nil }), "nothing is written")
	require.Equal(t, "new", get(t, path))
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)

	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink("nowhere", path))
	require.ErrorContains(t, f.Edit(t.Context(), func(string) (string, error) { return "x", nil }), "leads nowhere")
	require.NoError(t, os.Remove(path))
	require.NoError(t, unix.Mkfifo(path, 0o600))
	require.ErrorIs(t, f.Edit(t.Context(), func(string) (string, error) { return "x", nil }), fs.ErrInvalid)
}

func TestRootChangesNoFileThatAnotherUserCanExchange(t *testing.T) {
	need.Root(t)
	for name, prepare := range map[string]func(dir string) error{
		"a user's directory": func(dir string) error { return os.Chown(dir, 65534, 65534) },
		"a group writes":     func(dir string) error { return os.Chmod(dir, 0o775) },
		"all write":          func(dir string) error { return os.Chmod(dir, 0o777|fs.ModeSticky) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etc")
			require.NoError(t, os.Mkdir(dir, 0o755))
			put(t, filepath.Join(dir, "polisd.toml"), "a", 0o644)
			require.NoError(t, prepare(dir))
			f := File{Path: filepath.Join(dir, "polisd.toml"), Check: good}
			require.ErrorIs(t, f.Writable(), ErrForeign)
			require.ErrorIs(t, f.Edit(t.Context(), func(string) (string, error) { return "x", nil }), ErrForeign)
			require.Equal(t, "a", get(t, f.Path))
		})
	}
}

func TestNoUpdateIsLost(t *testing.T) {
	f := File{Path: filepath.Join(t.TempDir(), "polisd.toml"), Check: good}
	var all sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		all.Go(func() {
			errs[i] = f.Edit(t.Context(), func(text string) (string, error) { return text + fmt.Sprintf("%d\n", i), nil })
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(errs...))
	text, err := f.Read()
	require.NoError(t, err)
	for i := range errs {
		require.Contains(t, "\n"+text, fmt.Sprintf("\n%d\n", i))
	}
}

func TestAnotherHolderOfTheLockIsReported(t *testing.T) {
	dir := t.TempDir()
	f, err := os.OpenFile(filepath.Join(dir, ".polisd.toml.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, unix.Flock(int(f.Fd()), unix.LOCK_EX))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	edit := func(ctx context.Context) error {
		return File{Path: filepath.Join(dir, "polisd.toml"), Check: good}.Edit(ctx, func(string) (string, error) { return "x", nil })
	}
	require.ErrorIs(t, edit(ctx), ErrBusy)
	require.FileExists(t, f.Name())
	// What a crash left is no holder, and is gone after the change.
	require.NoError(t, f.Close())
	require.NoError(t, edit(t.Context()))
	require.NoFileExists(t, f.Name())
	require.NoError(t, unix.Mkfifo(f.Name(), 0o600))
	require.ErrorIs(t, edit(t.Context()), fs.ErrInvalid)
}

// Another user can open the directory and the configuration, and hold their locks: that is in nobody's way. It cannot open
// the file whose lock counts.
func TestNoOtherUserHoldsTheLock(t *testing.T) {
	need.Root(t)
	dir := t.TempDir()
	for d := dir; d != "/" && d != os.TempDir(); d = filepath.Dir(d) {
		require.NoError(t, os.Chmod(d, 0o755))
	}
	path := filepath.Join(dir, "polisd.toml")
	put(t, path, "a", 0o644)
	require.NoError(t, asuser.Do(65534, 65534, func() error {
		for _, name := range []string{dir, path} {
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			t.Cleanup(func() { f.Close() })
			if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
				return err
			}
		}
		return nil
	}))
	var there []string
	require.NoError(t, File{Path: path, Check: good}.Edit(t.Context(), func(text string) (string, error) {
		list, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range list {
			there = append(there, e.Name())
		}
		for _, flags := range []int{os.O_RDONLY, os.O_WRONLY} {
			require.ErrorIs(t, asuser.Do(65534, 65534, func() error {
				_, err := os.OpenFile(filepath.Join(dir, ".polisd.toml.lock"), flags, 0)
				return err
			}), fs.ErrPermission)
		}
		return text + "b", nil
	}))
	require.Equal(t, []string{".polisd.toml.lock", "polisd.toml"}, there)
	require.Equal(t, "ab", get(t, path))
	require.NoFileExists(t, filepath.Join(dir, ".polisd.toml.lock"))
}
