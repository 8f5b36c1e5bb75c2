package fusefs

import (
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A view without extended attributes returns ENOSYS once, and can still notify watchers.
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
	require.NoError(t, unix.Setxattr(v.in("f"), notifyName, nil, 0), "by the server itself")
}

// slowXattr waits until it is let go.
type slowXattr struct {
	testGuard
	entered, let chan struct{}
}

func (g *slowXattr) Xattr(string, string) ([]byte, bool) {
	close(g.entered)
	<-g.let
	return []byte("another"), true
}

// While the guard finds out who holds a lease, names can change.
func TestAVirtualAttributeIsAskedForWithoutALock(t *testing.T) {
	g := &slowXattr{entered: make(chan struct{}), let: make(chan struct{})}
	v := mountWith(t, g)
	write(t, v.raw("file"), "x")
	write(t, v.raw("other"), "x")
	got := make(chan string, 1)
	go func() {
		b := make([]byte, 100)
		n, err := unix.Getxattr(v.in("file"), "user.polis.lease", b)
		if err != nil {
			got <- err.Error()
			return
		}
		got <- string(b[:n])
	}()
	<-g.entered
	renamed := make(chan error, 1)
	go func() { renamed <- os.Rename(v.in("other"), v.in("new")) }()
	select {
	case err := <-renamed:
		close(g.let)
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		close(g.let)
		t.Fatal("a rename waits for an extended attribute")
	}
	require.Equal(t, "another", <-got)
}
