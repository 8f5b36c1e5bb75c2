package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/fusefs/fuseuring"
)

// ringsOf counts the threads of the agent's shim that wait for a request at a ring.
func (d *daemon) ringsOf(agent string) int {
	d.t.Helper()
	calls, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", d.shim(agent)))
	require.NoError(d.t, err)
	n := 0
	for _, c := range calls {
		call, err := os.ReadFile(c)
		if err == nil && strings.HasPrefix(string(call), fmt.Sprintf("%d ", unix.SYS_IO_URING_ENTER)) { // a thread may have ended
			n++
		}
	}
	return n
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
	d.eventually("requests come by rings", func() bool { return d.ringsOf("alice") > 0 })
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
