package fusefs

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A view without extended attributes says so, is asked once, and can still tell
// those who watch.
func TestAViewWithoutExtendedAttributes(t *testing.T) {
	v := mountView(t, func(c *Config) { c.NoXattrs = true })
	write(t, v.in("f"), "x")
	for range 5 {
		_, err := unix.Getxattr(v.in("f"), "user.mine", nil)
		require.ErrorIs(t, err, syscall.EOPNOTSUPP)
		_, err = unix.Listxattr(v.in("f"), nil)
		require.ErrorIs(t, err, syscall.EOPNOTSUPP)
		write(t, v.in("f"), "y")
	}
	require.ErrorIs(t, unix.Setxattr(v.in("f"), "user.mine", nil, 0), syscall.EOPNOTSUPP)
	require.ErrorIs(t, unix.Removexattr(v.in("f"), "user.mine"), syscall.EOPNOTSUPP)
	asked := v.fs.Requests()
	require.EqualValues(t, 1, asked["GETXATTR"])
	require.EqualValues(t, 1, asked["LISTXATTR"])
	require.NoError(t, unix.Setxattr(v.in("f"), nudgeName, nil, 0), "by the server itself")
}
