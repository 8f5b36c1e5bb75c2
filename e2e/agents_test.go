package e2e

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTwoAgentsWorkApart(t *testing.T) {
	d := startDaemon(t, options{})
	project := d.up()
	before := git(t, project, "status", "--short")
	require.Empty(t, before, "up must leave nothing in the working tree")
	require.Contains(t, d.must("up", "--repo", project, d.path("ws")), "already")

	a, b := d.add("alice"), d.add("bob")
	require.Equal(t, "agent/alice", a.Branch)
	require.Equal(t, 512, a.MemoryLimitMB)
	require.NotEqual(t, a.WorktreePath, b.WorktreePath)

	// The project's own path shows the agent's own copy, and no file of the other agent.
	d.sh("alice", "cd '"+project+"' && echo alice > src/new.txt && echo changed > main.txt && cat '"+a.WorktreePath+"/src/new.txt'")
	require.Equal(t, "alice", strings.TrimSpace(d.sh("alice", "hostname")))
	require.NotZero(t, d.exec("bob", "cat", "src/new.txt").code)
	require.NotZero(t, d.exec("bob", "ls", a.WorktreePath).code)
	require.Equal(t, "one\ntwo\nthree\n", d.sh("bob", "cat "+project+"/main.txt"))
	host, err := os.ReadFile(filepath.Join(project, "main.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\nthree\n", string(host))
	// On the host the worktree is the view.
	view, err := os.ReadFile(filepath.Join(a.WorktreePath, "main.txt"))
	require.NoError(t, err)
	require.Equal(t, "changed\n", string(view))

	d.sh("alice", "git add -A && git -c user.name=a -c user.email=a@b commit -qm work && git status --porcelain")
	d.must("merge", "alice")
	require.Contains(t, git(t, project, "log", "-1", "--format=%P"), " ", "a merge has two parents")
	merged, err := os.ReadFile(filepath.Join(project, "src/new.txt"))
	require.NoError(t, err)
	require.Equal(t, "alice\n", string(merged))
	require.Empty(t, git(t, project, "status", "--short"))
	d.refused(api.CodeNothingToMerge, "merge", "alice")

	d.must("agents", "remove", "alice", "bob", "--force")
	_, there := d.agent("alice")
	require.False(t, there)
	require.Empty(t, d.mounts())
	require.Zero(t, d.living())
}

func TestExecIsLikeRunningTheCommand(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	for _, c := range []struct {
		name    string
		command []string
		code    int
		out     string
		stdin   string
	}{
		{"exit status", []string{"sh", "-c", "exit 42"}, 42, "", ""},
		{"killed by a signal", []string{"sh", "-c", "kill -TERM $$"}, 128 + int(syscall.SIGTERM), "", ""},
		{"not found", []string{"no-such-program"}, 127, "", ""},
		{"standard input", []string{"cat"}, 0, "hello\n", "hello\n"},
		{"standard input is binary", []string{"wc", "-c"}, 0, "70000\n", strings.Repeat("\x00\xff", 35000)},
		{"arguments are kept", []string{"printf", "[%s]", "a b", "", "*"}, 0, "[a b][][*]", ""},
		{"no terminal unless there is one", []string{"sh", "-c", "test ! -t 0 && test ! -t 1"}, 0, "", "x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := d.ctlInput(c.stdin, append([]string{"agents", "exec", "alice", "--"}, c.command...)...)
			require.Equal(t, c.code, r.code, r.String())
			require.Equal(t, c.out, r.stdout)
		})
	}
	r := d.exec("alice", "sh", "-c", "echo out; echo err >&2")
	require.Equal(t, "out\n", r.stdout)
	require.Equal(t, "err\n", r.stderr)
	// A large output is complete.
	require.Len(t, d.exec("alice", "head", "-c", "5000000", "/dev/zero").stdout, 5000000)
}

func TestSandboxIsPrivateAndUnprivileged(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.add("bob")
	d.sh("alice", "echo x > /tmp/mark; echo x > $HOME/mark; test -w /run || true")
	require.NotZero(t, d.exec("bob", "test", "-e", "/tmp/mark").code)
	require.NotZero(t, d.exec("bob", "sh", "-c", "test -e $HOME/mark").code)
	_, err := os.Stat("/tmp/mark")
	require.ErrorIs(t, err, os.ErrNotExist)
	require.Equal(t, fmt.Sprint(owner), strings.TrimSpace(d.sh("alice", "id -u")))
	status := d.sh("alice", "cat /proc/self/status")
	for _, line := range []string{"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"} {
		require.Contains(t, status, line)
	}
	// Process numbers are those of the sandbox's own namespace, and small.
	require.Less(t, len(strings.Fields(d.sh("alice", "ls -d /proc/[0-9]*"))), 20)
	for _, p := range []string{"/usr/mark", "/etc/mark", "/root/x", "/var/mark", "/proc/sys/kernel/hostname", "/sys/mark"} {
		require.NotZero(t, d.exec("alice", "sh", "-c", "echo x > "+p).code, p)
	}
	require.Empty(t, d.exec("alice", "ls", "-A", "/root").stdout)
	for _, p := range []string{d.path("run"), d.path("state"), d.path("polisd.toml"), d.path("ws", ".polis", "state.json")} {
		r := d.exec("alice", "ls", "-la", p)
		require.NotZero(t, r.code, "%s is not the agent's business: %s", p, r)
	}
}

func TestStartStopRunWatch(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.must("agents", "add", "alice", "--base", "custom", "--", "sh", "-c", `echo "task: $0"; echo done > result.txt`)
	d.must("agents", "run", "alice", "make it so")
	d.eventually("the output of the task", func() bool { return strings.Contains(d.must("agents", "watch", "alice"), "task: make it so") })
	d.eventually("the agent is idle again", func() bool { a, _ := d.agent("alice"); return a.Status == api.StatusIdle })
	require.Equal(t, "done\n", d.sh("alice", "cat result.txt"))
	require.Contains(t, d.must("agents", "watch", "alice", "-n", "1"), "\n")

	d.must("agents", "stop", "alice")
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusStopped, a.Status)
	require.Zero(t, d.exec("alice", "true").code, "its sandbox is started")
	d.must("agents", "start", "--program", "alice")
	require.Equal(t, "done\n", d.sh("alice", "cat result.txt"))
}

func TestMemoryLimitKillsAndIsReported(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--memory", "64")
	d.add("bob")
	r := d.exec("alice", "/usr/bin/python3", "-c", "x = bytearray(300 << 20); print(len(x))")
	require.NotZero(t, r.code, r.String())
	d.eventually("the event", func() bool { return strings.Contains(d.must("events"), string(api.CodeOOMKilled)) })
	a, _ := d.agent("alice")
	require.Equal(t, api.StatusIdle, a.Status, "it was none of the agent's own")
	e := d.eventsOf(api.EventOOM)[0]
	require.Equal(t, "python3", e.Data["comm"])
	require.Equal(t, false, e.Data["total"])
	require.Greater(t, e.Data["bytes"], float64(32<<20))
	require.Equal(t, false, e.Data["own_program"])
	require.Contains(t, d.must("agents", "list"), "!memory")
	require.Equal(t, "ok\n", d.sh("bob", "echo ok"), "one agent's memory does not affect the others")
}

func TestProcessLimitHolds(t *testing.T) {
	d := startDaemon(t, options{config: "[limits]\npids = 32\n"})
	d.up()
	d.add("alice")
	r := d.exec("alice", "sh", "-c", "for i in $(seq 64); do sleep 300 & done 2>&1; echo started")
	require.Contains(t, r.stdout+r.stderr, "ork", "a fork must have failed: %s", r)
	d.eventually("the event", func() bool { return len(d.eventsOf(api.EventPids)) > 0 })
	e := d.eventsOf(api.EventPids)[0]
	require.Equal(t, api.CodePidsLimit, e.Code)
	require.Equal(t, float64(32), e.Data["limit"])
	require.Positive(t, e.Data["refused"])
	require.Contains(t, d.must("agents", "list"), "Idle !pids")
	d.must("agents", "remove", "alice", "--force")
}

func TestRemovalKillsWhatHides(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	mark := fmt.Sprintf("9%08d", os.Getpid())
	d.sh("alice", "setsid sh -c '(trap \"\" TERM HUP INT; sleep "+mark+"; sleep "+mark+") & exec sleep "+mark+"' >/dev/null 2>&1 </dev/null & nohup sleep "+mark+" >/dev/null 2>&1 &")
	count := func() int {
		n := 0
		for _, f := range glob("/proc/[0-9]*/cmdline") {
			if b, _ := os.ReadFile(f); strings.HasPrefix(string(b), "sleep\x00"+mark) {
				n++
			}
		}
		return n
	}
	d.eventually("they hide", func() bool { return count() >= 3 })
	began := time.Now()
	d.must("agents", "remove", "alice", "--force")
	require.Zero(t, count())
	t.Logf("removed in %v", time.Since(began))
}

func TestRemoveKeepsUnsavedWork(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "echo precious > untracked.txt; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one")
	e := d.refused(api.CodeUnsavedWork, "agents", "remove", "alice")
	require.NotEmpty(t, e.Hint)
	require.Equal(t, "precious\n", d.sh("alice", "cat untracked.txt"))
	var gone api.RemoveResponse
	decode(t, d.must("--json", "agents", "remove", "alice", "--force"), &gone)
	require.NotEmpty(t, gone.Trash)
	refs := git(t, d.internal(), "for-each-ref", "refs/polis/trash", "--format=%(refname)")
	require.NotEmpty(t, refs)
	found := false
	for _, ref := range strings.Fields(refs) {
		if strings.Contains(git(t, d.internal(), "ls-tree", "-r", "--name-only", ref), "untracked.txt") {
			found = true
		}
	}
	require.True(t, found, "the untracked file is in none of %s", refs)
	// The name is free again.
	d.add("alice")
}

func TestAgentLimitAndNames(t *testing.T) {
	d := startDaemon(t, options{config: "max_agents = 2\n"})
	d.up()
	d.add("alice")
	d.refused(api.CodeAgentExists, "agents", "add", "alice", "--base", "custom")
	d.refused(api.CodeAgentTypeUnavailable, "agents", "add", "bob", "--base", "nonesuch")
	for _, name := range []string{"Alice", "a", "1abc", "a_b", "../x", "a/b", strings.Repeat("a", 32), "a b", "-x"} {
		r := d.ctl("--json", "agents", "add", "--base", "custom", "--", name)
		require.NotZero(t, r.code, name)
		_, there := d.agent(name)
		require.False(t, there, name)
	}
	d.add("bob")
	d.refused(api.CodeMaxAgents, "agents", "add", "carol", "--base", "custom")
	require.Len(t, glob(d.path("ws", ".polis", "worktrees", "*")), 2, "a refused agent leaves no worktree")
}

// TestAnAgentsControlGroupIsNamed: the API and the state file have the control group of the agent's
// processes, as long as it has any.
func TestAnAgentsControlGroupIsNamed(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	a := d.add("alice", "--", "sleep", "1000")
	check := func(after string) {
		t.Helper()
		d.must("agents", "start", "--program", "alice")
		a, _ = d.agent("alice")
		require.NotEmpty(t, a.CgroupPath, after)
		require.NotZero(t, a.PID, after)
		groups := readFile(fmt.Sprintf("/proc/%d/cgroup", a.PID))
		require.Regexp(t, `(?m)^\d+:(.*memory.*)?:`+regexp.QuoteMeta(a.CgroupPath)+`$`, groups, after)
		require.Contains(t, readFile(d.path("ws", ".polis", "state.json")), fmt.Sprintf("%q: %q", "cgroup_path", a.CgroupPath), after)
	}
	require.NotEmpty(t, a.CgroupPath)
	check("add")
	was := a.CgroupPath
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	check("a crash")
	require.Equal(t, was, a.CgroupPath)
	d.must("agents", "stop", "alice")
	a, _ = d.agent("alice")
	require.Empty(t, a.CgroupPath)
	d.eventually("no control group of it is left, that of polisd's git for it neither", func() bool { return len(d.cgroupsNamed("alice")) == 0 })
	check("stop and start")
}

// TestAnAgentAndItsShimHaveOneShare of the processors: the work of a shim for one agent does not
// slow other agents, and one shim does not get the share of all agents.
func TestAnAgentAndItsShimHaveOneShare(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice", "--cpu-weight", "50", "--", "sleep", "1000")
	d.must("agents", "start", "--program", "alice")
	a, _ := d.agent("alice")
	above := path.Dir(a.CgroupPath)
	of := func(pid int) string {
		for line := range strings.Lines(readFile(fmt.Sprintf("/proc/%d/cgroup", pid))) {
			if parts := strings.SplitN(strings.TrimSpace(line), ":", 3); slices.Contains(strings.Split(parts[1], ","), "cpu") || parts[0] == "0" && !strings.Contains(readFile("/proc/mounts"), "cgroup rw") {
				return parts[2]
			}
		}
		return ""
	}
	weight := func(group string) string {
		for _, f := range []string{"/sys/fs/cgroup" + group + "/cpu.weight", "/sys/fs/cgroup/cpu" + group + "/cpu.shares", "/sys/fs/cgroup/cpu,cpuacct" + group + "/cpu.shares"} {
			if b := strings.TrimSpace(readFile(f)); b != "" {
				return map[bool]string{true: map[string]string{"512": "50", "1024": "100", "3072": "300"}[b], false: b}[strings.HasSuffix(f, "shares")]
			}
		}
		return ""
	}
	require.Equal(t, a.CgroupPath, of(a.PID))
	require.Equal(t, above+"/supervisor", of(a.ShimPID))
	require.Equal(t, "50", weight(above))
	require.Equal(t, "100", weight(a.CgroupPath))
	d.must("agents", "set", "alice", "--cpu-weight", "300")
	require.Equal(t, "300", weight(above))
	require.Equal(t, "100", weight(a.CgroupPath))
	require.NoError(t, syscall.Kill(a.ShimPID, syscall.SIGKILL))
	d.eventually("the agent is known to have failed", func() bool { a, _ = d.agent("alice"); return a.Status == api.StatusError })
	d.must("agents", "start", "--program", "alice")
	a, _ = d.agent("alice")
	require.Equal(t, above+"/supervisor", of(a.ShimPID))
	require.Equal(t, "300", weight(above))
}
