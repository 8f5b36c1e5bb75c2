package fusefs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestNoPipeGetsANameThatProgramsOpen, by no way; under other names there are pipes.
func TestNoPipeGetsANameThatProgramsOpen(t *testing.T) {
	v := mountView(t, func(c *Config) { c.Opened = []string{".gitignore"} })
	require.NoError(t, unix.Mkdir(v.in("dir"), 0o755))
	for _, dir := range []string{"", "dir/"} {
		require.ErrorIs(t, unix.Mkfifo(v.in(dir+".gitignore"), 0o600), syscall.EPERM)
		require.ErrorIs(t, bindAt(v.in(dir+".gitignore")), syscall.EPERM)
	}
	require.NoError(t, unix.Mkfifo(v.in("pipe"), 0o600))
	require.NoError(t, bindAt(v.in("sock")))
	for _, from := range []string{"pipe", "sock"} {
		require.ErrorIs(t, unix.Rename(v.in(from), v.in("dir/.gitignore")), syscall.EPERM)
		require.ErrorIs(t, unix.Link(v.in(from), v.in("dir/.gitignore")), syscall.EPERM)
	}
	write(t, v.in(".gitignore"), "build/\n")
	require.ErrorIs(t, unix.Rename(v.in("pipe"), v.in(".gitignore")), syscall.EPERM)
	require.ErrorIs(t, rename2(v.in("pipe"), v.in(".gitignore"), unix.RENAME_EXCHANGE), syscall.EPERM)
	require.ErrorIs(t, rename2(v.in(".gitignore"), v.in("pipe"), unix.RENAME_EXCHANGE), syscall.EPERM)
	require.Equal(t, "build/\n", content(t, v.in(".gitignore")))
	require.NoError(t, unix.Rename(v.in("pipe"), v.in("other")), "another name is free")
	require.NoError(t, unix.Link(v.in("other"), v.in("third")))
	require.NoError(t, unix.Rename(v.in(".gitignore"), v.in("dir/.gitignore")), "and so is this one for a file")
}
