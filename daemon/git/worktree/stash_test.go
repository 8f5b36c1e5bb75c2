package worktree

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestPrivateStashReadsHostileContent: the agent can put anything at refs/stash.
func TestPrivateStashReadsHostileContent(t *testing.T) {
	oid := strings.Repeat("1a", 20)
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte(oid), 0o644))
	for name, c := range map[string]struct {
		make func(stash string) error
		want string
	}{
		"none":                     {func(string) error { return nil }, ""},
		"an object id":             {func(p string) error { return os.WriteFile(p, []byte(oid+"\n"), 0o644) }, oid},
		"no object id":             {func(p string) error { return os.WriteFile(p, []byte("refs/heads/main\n"), 0o644) }, ""},
		"a large file":             {func(p string) error { return os.WriteFile(p, []byte(strings.Repeat(oid, 1000)), 0o644) }, ""},
		"a directory":              {func(p string) error { return os.Mkdir(p, 0o755) }, ""},
		"a FIFO":                   {func(p string) error { return unix.Mkfifo(p, 0o644) }, ""},
		"a symlink out of the dir": {func(p string) error { return os.Symlink(outside, p) }, ""},
		"a symlink beside it": {func(p string) error {
			return errors.Join(os.WriteFile(p+"x", []byte(oid), 0o644), os.Symlink("stashx", p))
		}, ""},
		"a socket": {func(p string) error { return unix.Mknod(p, unix.S_IFSOCK|0o644, 0) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			require.NoError(t, os.Mkdir(filepath.Join(dir, "refs"), 0o755))
			require.NoError(t, c.make(filepath.Join(dir, "refs", "stash")))
			got, err := PrivateStash(dir)
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
	got, err := PrivateStash(filepath.Join(t.TempDir(), "missing"))
	require.NoError(t, err)
	require.Empty(t, got)
}
