package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

func TestUsedUpInotifyInstancesAreNamed(t *testing.T) {
	d := &Doctor{}
	require.Equal(t, api.CheckOK, d.instances(unix.InotifyInit1).State)
	// As the kernel does: the instances of a user are counted, whichever program has them.
	c := d.instances(func(int) (int, error) { return -1, unix.EMFILE })
	require.Equal(t, api.CheckWarn, c.State)
	require.Contains(t, c.Found, "no instance left")
	require.Contains(t, c.Fix, "fs.inotify.max_user_instances")
	requireRemedy(t, c)
}
