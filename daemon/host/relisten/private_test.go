package relisten

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A socket is the owner's alone from its first moment, whatever the umask,
// which is the whole process's and stays as it is.
func TestASocketIsPrivateFromTheFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	before := unix.Umask(0)
	defer unix.Umask(before)
	l, err := Private(path)
	require.NoError(t, err)
	defer l.Close()
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, st.Mode())
	require.Zero(t, unix.Umask(0))
	c, err := net.Dial("unix", path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}
