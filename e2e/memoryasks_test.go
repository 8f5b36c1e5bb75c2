package e2e

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAnAgentAsksForMemoryBeforeItsLimit: an approval raises the kernel's limit by a step,
// permanently. A denial leaves the limit. A need that has passed withdraws the question.
func TestAnAgentAsksForMemoryBeforeItsLimit(t *testing.T) {
	needProgram(t, "python3")
	d := startDaemon(t, options{config: "[limits]\nmemory_mb = 128\n[limits.memory_ask]\nat = 60\nstep_mb = 64\nmax_mb = 192\n"})
	d.up()
	// It needs 90 MB, then, when the file is there, 60 MB more.
	hog := func(agent string) <-chan result {
		return d.asking(agent, `exec python3 -c "
import os, time
a = bytearray(b'x') * (90 << 20)
while not os.path.exists(os.environ['HOME'] + '/more'): time.sleep(0.05)
b = bytearray(b'x') * (60 << 20)
print('alive', len(a) + len(b))
"`)
	}
	limit := func(agent string) int {
		a, ok := d.agent(agent)
		require.True(t, ok)
		return a.MemoryLimitMB
	}
	more := func(agent string) { require.NoError(t, os.WriteFile(d.home(agent, "more"), nil, 0o644)) }

	d.worker("alice")
	run := hog("alice")
	q := d.question("alice")
	require.Equal(t, api.ApprovalMemory, q.Kind)
	require.Equal(t, "raise to 192 MB", q.What)
	require.Contains(t, q.Note, "of 128 MB")
	require.Contains(t, d.must("agents", "list", "--waiting"), "memory raise to 192 MB")
	d.must("approvals", "approve", q.ID)
	d.eventually("the limit is raised", func() bool { return limit("alice") == 192 })
	more("alice")
	r := <-run
	require.Zero(t, r.code, "%s", r)
	require.Contains(t, r.stdout, "alive", "150 MB are more than the limit before")
	require.Empty(t, d.questions(), "it has the highest limit")
	require.Contains(t, d.must("events"), "memory_limit_mb")
	d.stop()
	d.start()
	require.Equal(t, 192, limit("alice"))

	d.worker("bob")
	run = hog("bob")
	d.must("approvals", "deny", d.question("bob").ID)
	more("bob")
	r = <-run
	require.NotZero(t, r.code, "the kernel's limit is as before: %s", r)
	require.Equal(t, 128, limit("bob"))

	d.worker("carol")
	d.killed("carol", "python3 -c \"a = bytearray(b'x') * (90 << 20); import time; time.sleep(300)\"")
}
