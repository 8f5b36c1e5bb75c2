package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// shim is the process number of an agent's shim.
func (d *daemon) shim(agent string) int {
	d.t.Helper()
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		args := strings.Split(readFile(f), "\x00")
		if len(args) > 2 && strings.HasSuffix(args[0], "polis-shim") && args[2] == d.path("run", "agents", agent, "spec.json") {
			n, err := strconv.Atoi(strings.Split(f, "/")[2])
			require.NoError(d.t, err)
			return n
		}
	}
	d.t.Fatalf("agent %s has no shim", agent)
	return 0
}

// cgroups are the control groups of an agent's sandbox, in whatever hierarchies
// there are: where its process 1, a child of the shim, is.
func (d *daemon) cgroups(agent string) []string {
	d.t.Helper()
	var dirs []string
	for _, f := range glob(fmt.Sprintf("/proc/%d/task/*/children", d.shim(agent))) {
		for _, pid := range strings.Fields(readFile(f)) {
			for line := range strings.Lines(readFile("/proc/" + pid + "/cgroup")) {
				_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
				if filepath.Base(filepath.Dir(path)) == agent {
					dirs = append(dirs, append(glob("/sys/fs/cgroup/"+path), glob("/sys/fs/cgroup/*/"+path)...)...)
				}
			}
		}
	}
	require.NotEmpty(d.t, dirs, "the control group of %s", agent)
	return dirs
}

// inside are the processes of an agent's sandbox, as the host counts.
func (d *daemon) inside(agent string) []int {
	d.t.Helper()
	var found []int
	for _, word := range strings.Fields(readFile(filepath.Join(d.cgroups(agent)[0], "cgroup.procs"))) {
		n, err := strconv.Atoi(word)
		require.NoError(d.t, err)
		found = append(found, n)
	}
	return found
}

// links are the bridge's ports on the host: one for every agent that is up.
func (d *daemon) links() []string {
	d.t.Helper()
	_, rest, found := strings.Cut(readFile(d.path("polisd.log")), `msg="bridge added" op=net.shared link=`)
	require.True(d.t, found)
	bridge, _, _ := strings.Cut(rest, "\n")
	return glob("/sys/class/net/" + bridge + "/brif/*")
}

// state is the letter of proc(5) for a process: "" if there is none.
func state(pid int) string {
	stat := readFile(fmt.Sprintf("/proc/%d/stat", pid))
	if i := strings.LastIndex(stat, ") "); i >= 0 {
		return stat[i+2 : i+3]
	}
	return ""
}

// TestAShimsDeathTouchesOneAgent kills the shim of a working agent. Its processes end with their
// view, nothing of it remains on the host, it can be started again with all its files, and the
// other agents are not affected.
func TestAShimsDeathTouchesOneAgent(t *testing.T) {
	// External ports of its own: the daemon of a test beside this one may take what is free while alice is away.
	d := startDaemon(t, options{config: fmt.Sprintf("[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\n[network]\npool = \"10.%d.0.0/16\"\nports = \"12001-12099\"\n", 220+os.Getpid()%20), mounts: tools(t)})
	d.up()
	c := d.hire(1)
	d.add("alice", "--port", "3000")
	d.serve("alice", "127.0.0.1", 3000)
	d.serve("alice", "127.0.0.1", 4400) // polis maps this one by itself
	d.eventually("the second port", func() bool { return d.ports("alice")[4400].External != 0 })
	external := d.ports("alice")[3000].External
	d.fetchEventually(external, "alice 127.0.0.1")
	d.sh("alice", "echo kept > main.txt; mkdir deep; echo new > deep/new.txt")
	// At work in the view when it dies: reading, writing, and asleep in a directory of it.
	d.sh("alice", `for s in 'while :; do echo x >> log.txt; done' 'while :; do cat main.txt; ls -R .; done' 'cd deep; exec sleep 88888'; do
setsid sh -c "$s" >/dev/null 2>&1 </dev/null & done`)
	var pids []int
	d.eventually("init, two servers and three more", func() bool { pids = d.inside("alice"); return len(pids) >= 6 })
	d.eventually("the writer to write", func() bool { return d.exec("alice", "test", "-s", "log.txt").code == 0 })
	groups := d.cgroups("alice")
	require.Len(t, d.links(), 2)

	require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGKILL))
	d.eventually("the agent's processes to end", func() bool {
		for _, pid := range pids {
			if state(pid) != "" {
				return false
			}
		}
		return true
	})
	d.eventually("the agent is in Error, with the reason", func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusError && strings.Contains(a.StatusReason, "shim died")
	})
	for _, m := range d.mounts() {
		if m != d.path("ws", ".polis", "layers", "alice", "merged") { // polisd's own, until the agent is removed
			require.NotContains(t, m, "/alice")
		}
	}
	for _, g := range groups {
		require.NoDirExists(t, g)
	}
	require.Empty(t, glob(d.path("run", "netns", "alice")))
	require.Empty(t, glob(d.path("run", "agents", "alice")))
	d.eventually("its end of the bridge to go", func() bool { return len(d.links()) == 1 })
	_, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", external))
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NotContains(t, d.ports("alice"), 4400, "its listener is gone")
	d.add("bob")
	d.sh("bob", "echo bob > main.txt") // the lease is free
	for _, dir := range glob("/proc/[0-9]*") {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		require.False(t, state(pid) == "D" && strings.Contains(readFile(dir+"/wchan"), "fuse"), "process %d hangs in the view", pid)
	}

	d.must("agents", "start", "alice")
	require.Equal(t, "kept\nnew\n", d.sh("alice", "cat main.txt deep/new.txt; test -s log.txt"), "what was written is there")
	require.Equal(t, external, d.ports("alice")[3000].External)
	d.serve("alice", "127.0.0.1", 3000)
	d.fetchEventually(external, "alice 127.0.0.1")
	d.must("agents", "remove", "alice", "--force")
	c.dismiss()
}

// TestAViewThatDiesEndsItsAgent has the kernel abort the view's connection.
func TestAViewThatDiesEndsItsAgent(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo kept > main.txt; setsid sh -c 'while :; do cat main.txt; done' >/dev/null 2>&1 </dev/null &")
	pids := d.inside("alice")
	// umount -f aborts a FUSE connection (kernel: Documentation/filesystems/fuse).
	out, err := exec.CommandContext(t.Context(), "umount", "-f", d.viewMount("alice")).CombinedOutput()
	_ = err // busy: it stays mounted, dead
	d.eventually("the agent is in Error, with the reason: "+string(out), func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusError && strings.Contains(a.StatusReason, "view has ended")
	})
	for _, pid := range pids {
		require.Empty(t, state(pid))
	}
	require.Equal(t, 1, d.living())
	d.sh("bob", "echo fine > b.txt")
	d.must("agents", "start", "alice")
	require.Equal(t, "kept\n", d.sh("alice", "cat main.txt"))
}
