package base

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/internal/need"
)

// The owner of the scratch directory can exchange the index that git wrote there. Then no other file
// changes its owner, its mode or its name.
func TestOnlyTheIndexThatGitWroteIsTaken(t *testing.T) {
	need.Root(t)
	const nobody = 65534
	for name, exchange := range map[string]func(index, victim string) error{
		"a link":       func(index, victim string) error { return os.Symlink(victim, index) },
		"another name": func(index, victim string) error { return os.Link(victim, index) },
		"a directory":  func(index, _ string) error { return os.Mkdir(index, 0o755) },
		"a pipe":       func(index, _ string) error { return unix.Mkfifo(index, 0o644) },
		"root's file":  func(index, _ string) error { return os.WriteFile(index, []byte("x"), 0o644) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			index, to, victim := filepath.Join(dir, "index"), filepath.Join(dir, "taken"), filepath.Join(dir, "victim")
			require.NoError(t, os.WriteFile(victim, []byte("secret"), 0o644))
			require.NoError(t, os.Chown(victim, nobody, nobody))
			require.NoError(t, exchange(index, victim))
			s := New(Config{UID: nobody, GID: nobody})
			require.Error(t, s.takeIndex(index, to))
			require.NoFileExists(t, to)
			var st unix.Stat_t
			require.NoError(t, unix.Stat(victim, &st))
			require.Equal(t, []uint32{nobody, 0o644}, []uint32{st.Uid, st.Mode & 0o777})
		})
	}
	dir := t.TempDir()
	index, to := filepath.Join(dir, "index"), filepath.Join(dir, "taken")
	require.NoError(t, os.WriteFile(index, []byte("DIRC"), 0o644))
	require.NoError(t, os.Chown(index, nobody, nobody))
	require.NoError(t, os.WriteFile(to+partial, []byte("of a crash"), 0o600))
	require.NoError(t, New(Config{UID: nobody, GID: nobody}).takeIndex(index, to))
	text, err := os.ReadFile(to)
	require.NoError(t, err)
	require.Equal(t, "DIRC", string(text))
	var st unix.Stat_t
	require.NoError(t, unix.Lstat(to, &st))
	require.Equal(t, []uint32{0, 0o600}, []uint32{st.Uid, st.Mode & 0o777})
}
