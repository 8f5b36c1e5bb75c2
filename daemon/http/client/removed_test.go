package client

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestAPolisdWhoseSocketWasRemovedIsNotTakenForDead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	require.True(t, listens("/proc/net/unix", path))
	require.NoError(t, os.Remove(path))
	c := New(path)
	_, err = c.Status(t.Context())
	var e *api.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, "polisd runs, and another program removed its socket "+path, e.Message)
	require.Equal(t, "polisd makes it again within seconds: repeat the command; if it stays away, restart polisd: agents and their tasks continue meanwhile", e.Hint)

	require.NoError(t, l.Close())
	_, err = c.Status(t.Context())
	require.ErrorAs(t, err, &e)
	require.Equal(t, "polisd is not running: no socket at "+path, e.Message)
	require.False(t, listens("/proc/net/unix", path[:len(path)-1]))
	require.False(t, listens(path, path))
}
