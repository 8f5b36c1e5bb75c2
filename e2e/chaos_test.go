package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestKilledInTheMiddleOfChanges kills polisd at random moments while agents are added, started,
// given ports, stopped and removed. After the next start every operation is complete or undone, and
// an agent that is not concerned has continued.
func TestKilledInTheMiddleOfChanges(t *testing.T) {
	rounds := count(t, "POLIS_RESTARTS", 6)
	rnd := dice(t)
	d := startDaemon(t, options{mounts: tools(t)})
	d.up()
	c := d.hire(1)
	for range rounds {
		var clients sync.WaitGroup
		seed := rnd.Uint64()
		for i := range 3 {
			name := fmt.Sprintf("a%d", i)
			clients.Go(func() {
				// Each of these may find polisd dead or an agent incomplete. Only the final state
				// counts.
				for step := range 3 {
					switch (seed>>(8*i) + uint64(step)) % 3 {
					case 0:
						d.ctl("agents", "add", name, "--base", "custom", "--port", "3000", "--", "sleep", "1000")
						d.ctl("agents", "start", "--program", name)
					case 1:
						d.ctl("ports", "add", name, "5000")
						d.ctl("agents", "stop", name)
					case 2:
						d.ctl("agents", "remove", name, "--force")
					}
				}
			})
		}
		time.Sleep(time.Duration(rnd.IntN(600)) * time.Millisecond)
		require.Error(t, d.signal(syscall.SIGKILL))
		clients.Wait()
		d.start()

		worktrees, err := os.ReadDir(d.path("ws", ".polis", "worktrees"))
		require.NoError(t, err)
		var have, known []string
		for _, w := range worktrees {
			have = append(have, w.Name())
		}
		for _, name := range append([]string{"a0", "a1", "a2"}, c.names...) {
			a, there := d.agent(name)
			if !there {
				require.Empty(t, d.cgroupsNamed(name), name)
				require.Empty(t, glob(d.path("run", "netns", name)))
				continue
			}
			known = append(known, name)
			require.NotEqual(t, api.StatusCreating, a.Status)
			if a.Status == api.StatusIdle || a.Status == api.StatusRunning {
				require.Equal(t, "one\ntwo\nthree\n", d.sh(name, "cat main.txt"), name)
			}
		}
		slices.Sort(known)
		require.Equal(t, known, have, "agents and worktrees")
	}
	for _, name := range []string{"a0", "a1", "a2"} {
		d.ctl("agents", "remove", name, "--force")
		d.add(name)
		d.sh(name, "echo works > main.txt; rm main.txt; git checkout -q main.txt")
		d.must("agents", "remove", name, "--force")
	}
	c.dismiss()
}

// cgroupsNamed returns the control groups of this test's polisd for an agent, by name.
func (d *daemon) cgroupsNamed(agent string) []string {
	_, rest, _ := strings.Cut(readFile(d.path("polisd.log")), `msg="bridge added" op=net.shared link=plb`)
	id, _, _ := strings.Cut(rest, "\n")
	return append(glob("/sys/fs/cgroup/*"+id+"*/"+agent), glob("/sys/fs/cgroup/*/*"+id+"*/"+agent)...)
}
