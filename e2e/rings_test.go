package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/fuseuring"
)

// ringsOf counts the mappings of rings that the agent's shim has.
func (d *daemon) ringsOf(agent string) int {
	d.t.Helper()
	return strings.Count(readFile(fmt.Sprintf("/proc/%d/maps", d.shim(agent))), "io_uring")
}

func TestFuseIOUringIsEnabledWhilePolisdRuns(t *testing.T) {
	before, err := fuseuring.Enabled()
	if errors.Is(err, fuseuring.ErrNone) {
		return // what views then do is every other test
	}
	require.NoError(t, err)
	given := func() bool {
		on, err := fuseuring.Enabled()
		require.NoError(t, err)
		return on
	}
	d := startDaemon(t, options{box: "fuse_io_uring = true"})
	require.True(t, given())
	d.up()
	d.add("alice")
	require.Positive(t, d.ringsOf("alice"))
	d.sh("alice", "echo x > f; cat f; git status")
	require.Error(t, d.signal(9))
	require.True(t, given(), "it cannot be turned back")
	d.start()
	d.stop()
	require.Equal(t, before, given(), "the next one did")

	d = startDaemon(t, options{})
	require.Equal(t, before, given())
	d.up()
	d.add("bob")
	require.Zero(t, d.ringsOf("bob"))
	d.sh("bob", "echo x > f; cat f; git status")
}
