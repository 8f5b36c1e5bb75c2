package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTenThousandLeases: one agent holds them. All of them survive the death of polisd and the loss
// of the connection, and end with the agent.
func TestTenThousandLeases(t *testing.T) {
	const leases = 10_000
	d := startDaemon(t, options{config: "[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\n"})
	d.up()
	d.add("alice")
	d.add("bob")
	start := time.Now()
	d.sh("alice", fmt.Sprintf(`python3 -c '
import os
for i in range(%d):
    if i %% 500 == 0: os.mkdir("d%%d" %% (i // 500))
    open("d%%d/f%%d" %% (i // 500, i), "w").close()'`, leases))
	made := time.Since(start)
	mine := func() int {
		n := 0
		for _, l := range d.locks() {
			if l.Holder == "alice" && strings.HasPrefix(l.Path, "d") {
				n++
			}
		}
		return n
	}
	d.eventually("all of them are listed", func() bool { return mine() >= leases })
	held, have := mine(), d.locks()
	for i := range leases {
		if p := fmt.Sprintf("d%d/f%d", i/500, i); have[p].Holder != "alice" {
			t.Errorf("alice has no lease of %s: %v", p, have[p])
		}
	}
	require.Error(t, d.signal(syscall.SIGKILL))
	start = time.Now()
	d.start()
	d.eventually("all of them are there after the death of polisd", func() bool { return mine() == held })
	back := time.Since(start)
	require.Positive(t, d.cut("alice"))
	require.Contains(t, d.exec("bob", "sh", "-c", "mkdir -p d7; echo bob > d7/f3500").stderr, "busy")
	d.eventually("all of them are there after the loss of the connection", func() bool { return mine() == held })
	d.must("agents", "remove", "alice", "--force")
	require.Zero(t, mine())
	d.sh("bob", "mkdir -p d7; echo bob > d7/f3500")
	t.Logf("%d leases: made in %s, reclaimed and listed %s after the start of polisd", held, made.Round(time.Millisecond), back.Round(time.Millisecond))
}

// TestTwoHundredWaiters for one file, in four agents, over a restart of polisd. Each gets the lease
// within its bound, one after the other, and the file has all of their writes.
func TestTwoHundredWaiters(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"60s\"\nhold = \"close\"\ngrace = \"2s\"\ndaemon_wait = \"30s\"\n"})
	d.up()
	d.add("alice")
	agents := []string{"w0", "w1", "w2", "w3"}
	for _, a := range agents {
		d.add(a)
	}

	holder := make(chan result, 1)
	go func() {
		holder <- d.exec("alice", "sh", "-c", "exec 3>>main.txt; touch $HOME/has; while ! test -e $HOME/give; do sleep 0.02; done")
	}()
	d.eventually("alice has it", func() bool { return len(glob(d.home("alice", "has"))) == 1 })
	waiting := make(chan result, len(agents))
	for _, a := range agents {
		go func() {
			waiting <- d.exec(a, "sh", "-c", `for i in $(seq 50); do (echo $i >> main.txt || echo failed $i >&2) & done; wait; grep -c '^[0-9]' main.txt`)
		}()
	}
	d.eventually("they wait", func() bool { return len(d.locks()["main.txt"].Waiters) >= 4 })
	d.eventually("all of them", func() bool {
		n := 0
		for _, a := range agents {
			n += len(d.inside(a))
		}
		return n >= 200
	})
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	d.heldBy("alice", "main.txt")
	require.NoError(t, os.WriteFile(d.home("alice", "give"), nil, 0o644))
	require.Zero(t, (<-holder).code)
	for range agents {
		r := <-waiting
		require.Zero(t, r.code, "%s", r)
		require.Empty(t, r.stderr)
		require.Equal(t, "50\n", r.stdout, "each agent has its own copy, with its own 50 lines")
	}

}
