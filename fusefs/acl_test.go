package fusefs

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Access control lists cannot be set, and where the backing directory hands
// some on, nobody has more rights in the view than they give.
func TestAccessControlLists(t *testing.T) {
	tool(t, "setfacl")
	v := mountView(t)
	acl := []byte{2, 0, 0, 0, 1, 0, 6, 0, 255, 255, 255, 255, 4, 0, 4, 0, 255, 255, 255, 255, 32, 0, 4, 0, 255, 255, 255, 255}
	for _, name := range []string{"system.posix_acl_access", "system.posix_acl_default"} {
		require.ErrorIs(t, unix.Setxattr(v.mnt, name, acl, 0), syscall.EOPNOTSUPP)
	}

	back := t.TempDir()
	out, err := exec.Command("setfacl", "-d", "-m", "u:1234:rw,g::-", back).CombinedOutput()
	require.NoError(t, err, "%s", out)
	root, err := unix.Open(back, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	listed := mountView(t, func(c *Config) { c.Roots = []int{root} })
	unix.Close(root)
	openDir(t, listed.in("d"), 0o755)
	write(t, back+"/d/f", "secret")
	require.NoError(t, os.Chmod(back+"/d/f", 0o640))
	require.NoError(t, os.Chown(back+"/d/f", 1234, nobody))
	require.Error(t, as(t, nobody, nobody, "read", back+"/d/f"), "the list gives the owning group nothing")
	require.Error(t, as(t, nobody, nobody, "read", listed.in("d/f")), "nor does the view")
	require.NoError(t, as(t, 1234, 1234, "read", listed.in("d/f")))
}
