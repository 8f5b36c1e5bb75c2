package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// A waiting agent gets the file as it was when its branch began. It must merge what the holder has
// merged meanwhile.
func TestAWaiterLearnsThatTheFileChangedOnTheTarget(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\non_conflict = \"2m\"\nhold = \"10m\"\n", mounts: fmt.Sprintf("{ source = %q, dest = \"/opt/polis\", read_only = true }", bin(t))})
	d.up()
	d.worker("alice")
	d.add("bob")
	const quiet = "polisctl wait README.md 2>&1 && polisctl lock README.md --for 10s 2>&1"
	require.NotContains(t, d.as("bob", quiet).stdout, "has changed", "nothing changed")

	// A program that waits at the system call gets no answer with details: an event and the list of
	// locks have them.
	d.task("alice", "echo alice >> main.txt; until [ -e go ]; do sleep 0.1; done; rm go; git commit -qam alice")
	d.eventually("alice to hold it", func() bool { return d.locks()["main.txt"].Holder == "alice" })
	wrote := make(chan result, 1)
	go func() { wrote <- d.exec("bob", "sh", "-c", "echo bob >> main.txt") }()
	d.eventually("bob to wait", func() bool { return len(d.locks()["main.txt"].Waiting) == 1 })
	d.sh("alice", "touch go")
	d.fate("alice", api.MergeMerged)
	r := <-wrote
	require.Zero(t, r.code, r.String())
	const text = "main.txt has changed on main since this branch left it"
	d.eventually("the event", func() bool {
		return strings.Contains(d.must("events"), "agent bob waited for a lock: "+text)
	})
	d.eventually("the list of locks", func() bool { return strings.Contains(d.sh("bob", "cat /run/polis/locks"), "changed: "+text) })

	// A caller that waits or locks by name gets the answer.
	for _, verb := range []string{"wait main.txt", "lock main.txt --for 10s"} {
		r := d.as("bob", "polisctl "+verb)
		require.Zero(t, r.code, r.String())
		require.Contains(t, r.stdout+r.stderr, text)
	}
	var res api.WaitResponse
	decode(t, d.as("bob", "polisctl --json wait main.txt").stdout, &res)
	require.NotNil(t, res.Changed)
	require.Equal(t, "main", res.Changed.Target)
	require.NotEmpty(t, res.Changed.Commit)

	// It does what is printed.
	r = d.as("bob", ident+"git commit -qam bob; git merge -q -X ours main && polisctl wait main.txt")
	require.Zero(t, r.code, r.String())
	require.NotContains(t, r.stdout+r.stderr, text)
	require.Less(t, time.Duration(res.WaitedMillis)*time.Millisecond, time.Minute)
}
