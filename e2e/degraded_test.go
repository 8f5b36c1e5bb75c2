package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// refuseEnv makes the test binary a command that executes its arguments under a filter that refuses
// namespaces of these kinds (a number), as the filter of a container does.
const refuseEnv = "POLIS_TEST_REFUSE"

func TestMain(m *testing.M) {
	if flags := os.Getenv(refuseEnv); flags != "" {
		fmt.Fprintln(os.Stderr, refuse(flags, os.Args[1:]))
		os.Exit(1)
	}
	if os.Getenv(noInotifyEnv) != "" {
		fmt.Fprintln(os.Stderr, refuseInotify(os.Args[1:]))
		os.Exit(1)
	}
	if part := os.Getenv(processOneEnv); part != "" {
		os.Exit(processOne(part, os.Args[1:]))
	}
	if to := os.Getenv(plainProxyEnv); to != "" {
		fmt.Fprintln(os.Stderr, plainProxy(to))
		os.Exit(1)
	}
	slow, err := slowness()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	patience = time.Duration(slow * float64(patience))
	os.Exit(m.Run())
}

func refuse(flags string, command []string) error {
	mask, err := strconv.ParseUint(flags, 10, 32)
	if err != nil {
		return err
	}
	runtime.LockOSThread()
	jump := func(k uint32, jt, jf uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: jt, Jf: jf}
	}
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	ret := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	const nr, arg0 = 0, 16
	filter := []unix.SockFilter{
		load(nr),
		jump(unix.SYS_CLONE3, 4, 0), // its flags cannot be seen: fall back
		jump(unix.SYS_UNSHARE, 1, 0),
		jump(unix.SYS_CLONE, 0, 4),
		load(arg0),
		{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: uint32(mask), Jt: 1, Jf: 2},
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)),
		ret(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
		ret(unix.SECCOMP_RET_ALLOW),
	}
	return execFiltered(filter, refuseEnv, command)
}

// execFiltered executes a command under a filter of system calls, without a variable of the environment. The calling
// goroutine has its thread.
func execFiltered(filter []unix.SockFilter, env string, command []string) error {
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0); err != nil {
		return fmt.Errorf("filter: %w", err)
	}
	if err := os.Unsetenv(env); err != nil {
		return err
	}
	return fmt.Errorf("execute %s: %w", command[0], syscall.Exec(command[0], command, os.Environ()))
}

// without returns a command that starts another one without namespaces of these kinds.
func without(t *testing.T, flags int) []string {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return []string{"/usr/bin/env", refuseEnv + "=" + strconv.Itoa(flags), self}
}

const allowDegraded = `degraded = "allow"`

func (d *daemon) status() api.DaemonStatus {
	d.t.Helper()
	var st api.DaemonStatus
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "status")), &st))
	return st
}

func (d *daemon) check(name string) api.Check {
	d.t.Helper()
	var rep api.DoctorReport
	require.NoError(d.t, json.Unmarshal([]byte(d.ctl("--json", "doctor").stdout), &rep))
	for _, c := range rep.Checks {
		if c.Name == name {
			return c
		}
	}
	d.t.Fatalf("doctor says nothing of %s: %v", name, rep)
	return api.Check{}
}

// requireView requires that rules and locks apply between alice and bob.
func (d *daemon) requireView() {
	d.t.Helper()
	require.Contains(d.t, d.exec("alice", "sh", "-c", "cat secret/key.txt").stderr, "Permission denied")
	d.sh("alice", "echo mine > main.txt")
	require.Contains(d.t, d.exec("bob", "sh", "-c", "echo mine > main.txt").stderr, "resource busy")
	require.NotZero(d.t, d.exec("alice", "ls", d.path("ws", ".polis", "worktrees", "bob", "README.md")).code)
	require.NotZero(d.t, d.exec("alice", "unshare", "-Ur", "true").code)
	require.Contains(d.t, d.sh("alice", "cat /proc/self/status"), "CapEff:\t0000000000000000")
}

func TestDegradedIsRefusedUnlessItIsAllowed(t *testing.T) {
	needProgram(t, "setpriv")
	d := startDaemon(t, options{wrap: []string{"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"}})
	d.up()
	st := d.status()
	require.Equal(t, "degraded", st.IsolationMode)
	require.Len(t, st.Lost, 1)
	require.Equal(t, "network", st.Lost[0].Capability)
	text := d.must("status")
	require.Contains(t, text, "warning: SYSBOX_UNAVAILABLE: isolation is degraded, agents are refused")
	require.Contains(t, text, "warning: NET_NS_FAILED: no network isolation: agents share the host's network")
	e := d.refused(api.CodeNetNSFailed, "agents", "add", "alice", "--base", "custom")
	require.Contains(t, e.Hint, `sandbox.degraded = "allow"`)
	_, there := d.agent("alice")
	require.False(t, there)
	require.NoDirExists(t, d.path("ws", ".polis", "worktrees", "alice"))
	require.Equal(t, api.CheckFail, d.check("namespace network").State)
	require.Equal(t, api.CodeSysboxUnavailable, d.check("full isolation").Code)

	// Allowed by a reloaded configuration, and refused again by another.
	conf := readFile(d.path("polisd.toml"))
	d.write("polisd.toml", strings.Replace(conf, "[sandbox]\n", "[sandbox]\n"+allowDegraded+"\n", 1))
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration is read", func() bool { return strings.Contains(d.must("status"), "agents go without") })
	a := d.add("alice")
	require.Equal(t, "degraded", a.Isolation)
	d.write("polisd.toml", conf)
	require.NoError(t, d.cmd.Process.Signal(syscall.SIGHUP))
	d.eventually("the configuration is read", func() bool { return strings.Contains(d.must("status"), "agents are refused") })
	d.must("agents", "stop", "alice")
	d.refused(api.CodeNetNSFailed, "agents", "start", "alice")
}

// Feature: multi-agent-workspaces, Property 30: Degraded Mode Port Allocation
func TestDegradedWithoutNetwork(t *testing.T) {
	needProgram(t, "setpriv")
	const lo, hi = 20000, 20999
	d := startDaemon(t, options{
		wrap:   []string{"setpriv", "--bounding-set=-net_admin", "--inh-caps=-net_admin"},
		config: fmt.Sprintf("[network]\npool = \"10.199.0.0/16\"\nports = \"%d-%d\"\n", lo, hi), box: allowDegraded,
	})
	d.up()
	text := d.must("agents", "add", "alice", "--base", "custom", "--deny", "secret/**", "--read", "**", "--write", "**")
	require.Contains(t, text, "warning: isolation is degraded: agent alice has no network of its own")
	taken := map[int]bool{}
	sequential := true
	for i, flags := range [][]string{{"--port", "3000", "--port", "8080"}, {"--port", "3000"}, {}, {}, {}} {
		name := []string{"bob", "carol", "dave", "erin", "frank"}[i]
		a := d.add(name, flags...)
		require.Equal(t, "degraded", a.Isolation)
		require.Equal(t, []string{"network"}, a.Lost)
		require.Len(t, a.PortMappings, max(1, len(flags)/2))
		for _, p := range a.PortMappings {
			require.True(t, p.External >= lo && p.External <= hi, p.External)
			require.False(t, taken[p.External], "a port is handed out twice")
			taken[p.External] = true
			sequential = sequential && p.External < lo+20
			require.Contains(t, d.must("ports", "list"), strconv.Itoa(p.External), "the ports that are used are shown")
			require.Contains(t, d.must("agents", "list"), strconv.Itoa(p.External))
		}
		env := d.sh(name, "env")
		require.Contains(t, env, fmt.Sprintf("\nPORT=%d\n", a.PortMappings[0].External))
		if len(flags) > 0 {
			require.Contains(t, env, fmt.Sprintf("\nPORT_3000=%d\n", a.PortMappings[0].External))
		}
	}
	require.False(t, sequential, "ports are chosen by chance")
	d.requireView()

	// Egress cannot be restricted here, so an agent with a restriction is refused.
	d.refused(api.CodeNetNSFailed, "agents", "add", "held", "--base", "custom", "--egress", "none")
	d.refused(api.CodeNetNSFailed, "agents", "set", "bob", "--egress", "example.org")

	// A server there is reachable on the host, and the port stays the agent's.
	d.must("agents", "exec", "dave", "--", "sh", "-c", "echo served > /tmp/f; cd /tmp; setsid python3 -m http.server --bind 127.0.0.1 $PORT </dev/null >/dev/null 2>&1 &")
	port := strings.TrimSpace(d.sh("dave", "echo $PORT"))
	require.NotEmpty(t, port)
	d.eventually("the server answers", func() bool {
		return d.exec("erin", "curl", "-s", "--max-time", "2", "http://127.0.0.1:"+port+"/f").stdout == "served\n"
	})
	d.must("agents", "stop", "dave")
	d.must("agents", "start", "--program", "dave")
	require.Equal(t, port, strings.TrimSpace(d.sh("dave", "echo $PORT")))

	// Polisd dies and comes back; all is as it was.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	require.Equal(t, port, strings.TrimSpace(d.sh("dave", "echo $PORT")))
	d.must("agents", "remove", "dave", "--force")
	require.NotContains(t, d.must("ports", "list"), port)
}

func TestDegradedWithoutProcessNamespaces(t *testing.T) {
	for name, flags := range map[string]int{
		"processes":      unix.CLONE_NEWPID,
		"all but mounts": unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP,
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, options{wrap: without(t, flags)})
			d.up()
			d.refused(api.CodePIDNSFailed, "agents", "add", "alice", "--base", "custom")
			d.stop()
			conf := readFile(d.path("polisd.toml"))
			d.write("polisd.toml", strings.Replace(conf, "[sandbox]\n", "[sandbox]\n"+allowDegraded+"\n", 1))
			d.start()
			require.Contains(t, d.must("status"), "warning: PID_NS_FAILED: no pid isolation")
			require.Contains(t, d.must("agents", "add", "alice", "--base", "custom", "--deny", "secret/**", "--read", "**", "--write", "**"), "has no pid")
			require.Contains(t, d.add("bob").Lost, "pid")
			d.requireView()
			require.NotZero(t, d.exec("alice", "python3", "-c", preamble+"exit(libc.ptrace(0, 0, 0, 0) != 0)").code, "ptrace")

			// A process that detached itself completely ends with its agent, also after a crash.
			nap := "nap" + strconv.Itoa(os.Getpid()%10000)
			for _, agent := range []string{"alice", "bob"} {
				d.sh(agent, "cp /bin/sleep /tmp/"+nap+" && setsid /tmp/"+nap+" 3600 </dev/null >/dev/null 2>&1 &")
			}
			d.eventually("they sleep", func() bool { return len(strings.Fields(hostPids(nap))) == 2 })
			d.must("agents", "remove", "alice", "--force")
			// Dead, and reaped in a moment by process 1.
			d.eventually("one is left", func() bool { return len(strings.Fields(hostPids(nap))) == 1 })
			shim, err := strconv.Atoi(strings.Fields(readFile(d.path("run", "agents", "bob", "shim.pid")) + " none")[0])
			require.NoError(t, err)
			require.NoError(t, syscall.Kill(shim, syscall.SIGKILL))
			d.eventually("what a dead shim left is cleared", func() bool { return hostPids(nap) == "" })

			// Also if no polisd runs that could end it.
			d.add("carol")
			d.sh("carol", "cp /bin/sleep /tmp/"+nap+" && setsid /tmp/"+nap+" 3600 </dev/null >/dev/null 2>&1 &")
			d.eventually("it sleeps", func() bool { return hostPids(nap) != "" })
			shim, err = strconv.Atoi(strings.Fields(readFile(d.path("run", "agents", "carol", "shim.pid")) + " none")[0])
			require.NoError(t, err)
			require.Error(t, d.signal(syscall.SIGKILL))
			require.NoError(t, syscall.Kill(shim, syscall.SIGKILL))
			d.eventually("it ends with its shim", func() bool { return hostPids(nap) == "" })
			d.start()
		})
	}
}

func TestWithoutMountNamespacesThereAreNoAgents(t *testing.T) {
	d := startDaemon(t, options{wrap: without(t, unix.CLONE_NEWNS), box: allowDegraded})
	d.up()
	require.Contains(t, d.must("status"), "agents are refused: mount")
	e := d.refused(api.CodeMountNSFailed, "agents", "add", "alice", "--base", "custom")
	require.NotContains(t, e.Hint, "allow")
	require.Equal(t, api.CheckFail, d.check("full isolation").State)
}
