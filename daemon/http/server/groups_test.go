package server

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

func TestTheReadGroupIsAGroupOfThisMachine(t *testing.T) {
	for name, want := range map[string]int{"": -1, "12345": 12345} {
		gid, err := ReadGroup(name)
		require.NoError(t, err, name)
		require.Equal(t, want, gid, name)
	}
	for _, name := range []string{"root", "0", "-1", "no such group", "4294967296"} {
		_, err := ReadGroup(name)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), name)
	}
}

// TestAllowSetsAndRemovesTheList: systemd keeps a socket, and the list on it, over restarts.
func TestAllowSetsAndRemovesTheList(t *testing.T) {
	l, err := ListenSocket(filepath.Join(t.TempDir(), "s"), -1)
	require.NoError(t, err)
	defer l.Close()
	path := l.Addr().String()
	require.NoError(t, AllowGroup(l, -1), "there is no list yet")
	require.NoError(t, AllowGroup(l, 12345))
	list := make([]byte, 1024)
	n, err := unix.Getxattr(path, "system.posix_acl_access", list)
	require.NoError(t, err)
	require.Equal(t, 4+5*8, n, "a version and five entries")
	require.NoError(t, AllowGroup(l, -1))
	_, err = unix.Getxattr(path, "system.posix_acl_access", list)
	require.ErrorIs(t, err, unix.ENODATA)
}
