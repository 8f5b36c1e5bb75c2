package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// refusedCalls returns the number of refused system calls of an agent, by their purpose. An event
// can stand for many calls.
func (d *daemon) refusedCalls(agent string) map[string][]api.Event {
	d.t.Helper()
	out := map[string][]api.Event{}
	for _, e := range d.eventsOf(api.EventDenied) {
		if e.Agent == agent && e.Code == api.CodeSyscallDenied {
			path := fmt.Sprint(e.Data["path"])
			out[path] = append(out[path], e)
		}
	}
	return out
}

// TestDeniedSyscallsEmitEvents: an escape attempt emits an event with the caller and the system
// call, and in the sandbox why has the reason and the next step. Ordinary programs emit none.
func TestDeniedSyscallsEmitEvents(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "git status; echo x >>main.txt; git commit -qam x; ulimit -n 512; python3 -c 'import socket, subprocess; subprocess.run([\"true\"]); socket.socket().close()'")
	require.Empty(t, d.refusedCalls("alice"))

	r := d.exec("alice", "chroot", "/tmp", "true")
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "Operation not permitted")
	d.eventually("the event", func() bool { return len(d.refusedCalls("alice")["chroot"]) == 1 })
	e := d.refusedCalls("alice")["chroot"][0]
	require.Equal(t, "chroot", e.Data["program"])
	require.Positive(t, e.Data["pid"])
	require.NotEmpty(t, e.Data["hint"])
	require.Equal(t, fmt.Sprintf("agent alice: system call of chroot was refused (SYSCALL_DENIED), asked by chroot (pid %.0f)", e.Data["pid"]), e.Message)
	require.NotZero(t, d.exec("alice", "unshare", "-Ur", "true").code)
	d.eventually("what it asked for", func() bool { return len(d.refusedCalls("alice")["unshare (CLONE_NEWUSER)"]) == 1 })
	why := d.sh("alice", "cat /run/polis/why")
	require.Contains(t, why, "system call of unshare (CLONE_NEWUSER) was refused: SYSCALL_DENIED (EPERM)")
	require.Contains(t, why, "asked by:  unshare")
	require.Contains(t, why, "because:   agents make no namespaces")
	require.Contains(t, why, "do next:   switch the program's own sandbox off")
	require.Contains(t, d.must("agents", "why", "alice"), "system call chroot: SYSCALL_DENIED (EPERM)")
	require.Empty(t, d.refusedCalls("bob"))
}

// TestAFloodOfRefusedCallsIsAggregated: it floods neither the events nor the files in the sandbox,
// every call is counted, and other agents continue.
func TestAFloodOfRefusedCallsIsAggregated(t *testing.T) {
	const calls = 100_000
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	flood := make(chan result, 1)
	start := time.Now()
	go func() {
		flood <- d.exec("alice", "python3", "-c", fmt.Sprintf(`
import ctypes, threading
libc = ctypes.CDLL(None)
def many():
    for i in range(%d): libc.chroot(b"/tmp")
all = [threading.Thread(target=many) for i in range(4)]
for t in all: t.start()
for t in all: t.join()
`, calls/4))
	}()
	d.sh("alice", "echo more >>main.txt; git commit -qam more")
	d.sh("bob", "echo bob >bob.txt; git add bob.txt; git commit -qm bob; cat /run/polis/why")
	r := <-flood
	require.Zero(t, r.code, r.String())
	t.Logf("%d calls in %s", calls, time.Since(start).Round(time.Millisecond))
	d.eventually("they were counted", func() bool {
		return slices.ContainsFunc(d.refusedCalls("alice")["chroot"], func(e api.Event) bool { n, _ := e.Data["count"].(float64); return n > calls/10 })
	})
	all := d.refusedCalls("alice")
	require.LessOrEqual(t, len(all["chroot"]), 3, "%v", all)
	require.Len(t, all, 1)
	require.Empty(t, d.refusedCalls("bob"))
	require.Contains(t, d.sh("alice", "cat /run/polis/why"), " times\n")
}
