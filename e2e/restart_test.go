package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAgentsOutliveTheDaemon kills polisd and starts it again: processes, open files, leases, ports
// and output continue.
func TestAgentsOutliveTheDaemon(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\n"})
	d.up()
	d.add("alice", "--port", "3000")
	d.add("bob")
	d.serve("alice", "127.0.0.1", 3000)
	// A process that keeps a file open for writing, and continues to write.
	d.sh("alice", `setsid sh -c 'exec 3>>main.txt; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); echo line $i >&3 || exit 1; sleep 0.05; done' >/dev/null 2>&1 </dev/null & echo $! > $HOME/pid; sleep 0.3`)
	external := d.ports("alice")[3000].External
	d.fetchEventually(external, "alice 127.0.0.1")
	lines := func() int {
		return len(strings.Split(d.sh("alice", "cat main.txt"), "\n"))
	}
	pid := strings.TrimSpace(d.sh("alice", "cat $HOME/pid"))
	before := lines()
	tokenBefore := d.locks()["main.txt"].Token

	for round := range 3 {
		require.Error(t, d.signal(syscall.SIGKILL))
		require.Equal(t, 2, d.living(), "shims live without the daemon")
		got, err := fetch(fmt.Sprintf("http://127.0.0.1:%d/", external))
		require.NoError(t, err, "the port map works without the daemon")
		require.Equal(t, "alice 127.0.0.1", got)
		d.start()
		d.heldBy("alice", "main.txt")
		d.eventually("bob is still refused, with EBUSY", func() bool {
			r := d.exec("bob", "sh", "-c", "echo bob >> main.txt")
			require.NotZero(t, r.code, "bob got alice's file")
			return strings.Contains(r.stderr, "busy")
		})
		d.sh("alice", "kill -0 "+pid)
		require.Equal(t, external, d.ports("alice")[3000].External)
		d.sh("bob", fmt.Sprintf("echo x > new%d.txt", round))
	}
	require.Greater(t, lines(), before)
	require.GreaterOrEqual(t, d.locks()["main.txt"].Token, tokenBefore)
	a, _ := d.agent("alice")
	require.NotEqual(t, api.StatusError, a.Status)
	require.NotContains(t, d.sh("bob", "cat main.txt"), "line", "and bob's copy is bob's")
}

// TestStopLeavesNothingAndStartRestores is an orderly stop.
func TestStopLeavesNothingAndStartRestores(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "256", "--port", "3000")
	d.sh("alice", "echo kept > kept.txt")
	d.stop()
	require.Empty(t, d.mounts())
	require.Zero(t, d.living())
	require.Empty(t, glob(d.path("run", "*.sock")))
	require.Empty(t, glob(d.path("run", "netns", "*")))
	d.start()
	a, there := d.agent("alice")
	require.True(t, there)
	require.Equal(t, 256, a.MemoryLimitMB)
	require.Equal(t, "agent/alice", a.Branch)
	require.Len(t, a.PortMappings, 1)
	if a.Status == api.StatusStopped {
		d.must("agents", "start", "alice")
	}
	require.Equal(t, "kept\n", d.sh("alice", "cat kept.txt"))
}

func TestTwoDaemonsDoNotInterfere(t *testing.T) {
	one := startDaemon(t, options{config: "[network]\npool = \"10.236.0.0/16\"\n"})
	two := startDaemon(t, options{config: "[network]\npool = \"10.237.0.0/16\"\n"})
	one.up()
	two.up()
	one.add("alice")
	two.add("alice")
	one.sh("alice", "echo one > main.txt")
	two.sh("alice", "echo two > main.txt")
	one.stop()
	require.Equal(t, "two\n", two.sh("alice", "cat main.txt"))
	require.Equal(t, 1, two.living())
}

// TestASecondDaemonIsRefused: one run directory, one daemon.
func TestASecondDaemonIsRefused(t *testing.T) {
	d := startDaemon(t, options{})
	r := d.polisd("--config", d.path("polisd.toml"))
	require.NotZero(t, r.code)
	require.Contains(t, r.stderr, "another polisd")
	require.Contains(t, r.stderr, string(api.CodeUnavailable))
	require.Contains(t, r.stderr, d.path("run"), "the owner is named")
	d.must("status")
}

func TestConfigurationIsChecked(t *testing.T) {
	d := startDaemon(t, options{})
	for _, c := range []struct{ text, want string }{
		{"no_such_key = 1\n", "no_such_key"}, {"max_agents = \"many\"\n", "max_agents"}, {"[network]\nbind = \"nowhere\"\n", "network.bind"},
		{"[locks]\nwait = \"soon\"\n", "soon"}, {"run_dir = \"relative\"\n", "run_dir"}, {"\x00", ""}, {strings.Repeat("[", 100000), ""},
	} {
		d.write("bad.toml", c.text)
		r := d.polisd("--config", d.path("bad.toml"), "--check")
		require.NotZero(t, r.code, c.text[:min(40, len(c.text))])
		require.Contains(t, r.stderr, c.want)
		require.NotContains(t, r.stderr, "goroutine")
	}
	require.NotZero(t, d.polisd("--config", d.path("missing.toml")).code)
	// A bad file at reload changes nothing.
	good := readFile(d.path("polisd.toml"))
	d.write("polisd.toml", "no_such_key = 1\n")
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the refusal in the log", func() bool { return strings.Contains(d.log(), "no_such_key") })
	d.must("status")
	d.write("polisd.toml", good)
}
