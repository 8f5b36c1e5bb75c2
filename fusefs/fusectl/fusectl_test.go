package fusectl_test

import (
	"testing"

	"github.com/moby/sys/mountinfo"
	"github.com/stretchr/testify/require"

	"polis/fusefs/fusectl"
	"polis/internal/need"
)

const gone = 1<<20 - 1 // the last minor number

func TestAConnectionThatIsNotThereHasNoRequests(t *testing.T) {
	need.Root(t)
	c, err := fusectl.Open(gone)
	require.NoError(t, err)
	require.EqualValues(t, gone, c.ID())
	n, err := c.Waiting()
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, c.Abort())
	require.NoError(t, c.Close())
	require.NoError(t, c.Close(), "twice")
	require.NoError(t, c.Abort(), "closed")
}

// The number of a mount that has gone can be another connection's by now.
func TestTheConnectionOfAMountThatIsGoneIsNotThere(t *testing.T) {
	need.Root(t)
	all, err := mountinfo.GetMounts(nil)
	require.NoError(t, err)
	require.NotEmpty(t, all)
	for _, change := range []func(m *mountinfo.Info){
		func(m *mountinfo.Info) { m.ID = -1 }, func(m *mountinfo.Info) { m.Minor = gone }, func(m *mountinfo.Info) { m.Source += "x" },
		func(m *mountinfo.Info) { m.Mountpoint += "x" }, func(m *mountinfo.Info) { m.FSType += "x" },
	} {
		m := *all[0]
		change(&m)
		c, err := fusectl.OpenMounted(&m)
		require.NoError(t, err)
		n, err := c.Waiting()
		require.NoError(t, err)
		require.Zero(t, n)
		require.NoError(t, c.Abort())
	}
}
