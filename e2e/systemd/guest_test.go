package systemd

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowMachine reports whether this is an emulated machine.
func slowMachine() bool { return os.Getenv("POLIS_PATIENCE") != "" }

// patience is how long to wait for what must happen; POLIS_PATIENCE (such as 10m) on a slow machine.
func patience() time.Duration {
	if d, err := time.ParseDuration(os.Getenv("POLIS_PATIENCE")); err == nil {
		return d
	}
	return time.Minute
}

// run runs a shell script and returns what it printed, both streams.
func run(t *testing.T, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, script string) string {
	t.Helper()
	out, err := run(t, script)
	if err != nil {
		require.NoError(t, err, "%s\n%s\n%s", script, out, journal(t))
	}
	return out
}

// journal is what to look at after a failure.
func journal(t *testing.T) string {
	t.Helper()
	out, _ := run(t, "journalctl --no-pager -q -n 80 -o cat -u polisd -u 'polis-agent@*'; systemctl --no-pager -n 0 status polisd 'polis-agent@*' || true")
	return "--- journal:\n" + out
}

func mustNot(t *testing.T, script string) string {
	t.Helper()
	out, err := run(t, script)
	require.Error(t, err, "%s\n%s", script, out)
	return out
}

func property(t *testing.T, unit, name string) string {
	t.Helper()
	return strings.TrimSpace(must(t, "systemctl show -P "+name+" '"+unit+"'"))
}

func pid(t *testing.T, unit string) int {
	t.Helper()
	n, err := strconv.Atoi(property(t, unit, "MainPID"))
	require.NoError(t, err)
	return n
}

func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(patience()); !f(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("did not happen: %s\n%s", what, journal(t))
		}
	}
}

// answers reports whether polisd answers its clients.
func answers(t *testing.T) bool {
	_, err := run(t, "polisctl --timeout 5s -q status")
	return err == nil
}

// guest is one life of an installed polis; every part builds on the ones before.
func guest(t *testing.T) {
	for _, part := range []struct {
		name string
		f    func(*testing.T)
	}{
		{"install", install},
		{"start", start},
		{"admin socket is for root and the group", socketAccess},
		{"the README's examples work as pasted", readme},
		{"agents are units", agents},
		{"polisd's unit is hardened", hardened},
		{"restart touches no agent", restart},
		{"a killed polisd comes back and touches no agent", killed},
		{"removed sockets come back and touch no agent", removedSockets},
		{"an upgrade under load touches no agent", upgrade},
		{"reload reads the configuration", reload},
		{"all agents together have limits", total},
		{"a hung polisd is noticed", watchdog},
		{"out of memory ends a process, not the agent's unit", outOfMemory},
		{"an agent asks for memory at the kernel's soft limit", memoryAsks},
		{"a killed shim is cleaned up after", killedShim},
		{"a case of the patrol is in the journal", escalation},
		{"the journal finds the lines about an agent", logFields},
		{"a long grace extends the stop", longGrace},
		{"stop leaves nothing", stop},
		{"start brings the agents back", startAgain},
		{"a client starts polisd through the socket", activation},
		{"uninstall", uninstall},
		{"a sandbox below a delegated unit", delegated},
	} {
		if !t.Run(part.name, part.f) {
			t.FailNow()
		}
	}
}

// delegated runs the test of package sandbox that only a unit can.
func delegated(t *testing.T) {
	out := must(t, "systemd-run --quiet --wait --pipe --collect -p Delegate=yes -E CI=true -E HOME=/root -E PATH=$PATH /run/guest/sandbox.test -test.v -test.run '^TestSandboxBelowADelegatedUnit$'")
	require.Contains(t, out, "--- PASS: TestSandboxBelowADelegatedUnit")
}

func install(t *testing.T) {
	must(t, "make -C tree install")
	must(t, "systemd-analyze verify --man=no polisd.service polisd.socket polis.slice polis-agent@x.service")
	require.Contains(t, must(t, "id polis"), "polis")
	require.Equal(t, "711 root root\n711 root root\n", must(t, "stat -c '%a %U %G' /run/polis /var/lib/polis"))
	if slowMachine() { // a lease ends some time after the last write
		must(t, `sed -i 's/^#hold = "30s"/hold = "30m"/' /etc/polis/polisd.toml && grep -q '^hold = "30m"' /etc/polis/polisd.toml`)
	}
	must(t, "polisd --check")
	out := mustNot(t, "polisctl status")
	require.Contains(t, out, "polisd", "says what is missing")
	must(t, "man -w polisd 2>/dev/null || test -e /usr/share/man/man8/polisd.8")
}

func start(t *testing.T) {
	must(t, "systemctl start polisd")
	require.Equal(t, "active", property(t, "polisd.service", "ActiveState"))
	require.Equal(t, "660 root polis\n", must(t, "stat -c '%a %U %G' /run/polis/polisd.sock"))
	eventually(t, "a status line", func() bool { return property(t, "polisd.service", "StatusText") != "" })
	out := must(t, "polisctl --json status")
	require.Contains(t, out, `"systemd"`)
}

func socketAccess(t *testing.T) {
	must(t, "setpriv --reuid=65534 --regid=$(getent group polis | cut -d: -f3) --clear-groups polisctl -q status")
	mustNot(t, "setpriv --reuid=65534 --regid=65534 --clear-groups polisctl -q status")
}

func agents(t *testing.T) {
	must(t, `mkdir /tmp/src && cd /tmp/src && git init -q -b main && echo one > a.txt && echo two > b.txt && git add . &&
git -c user.name=x -c user.email=x@y commit -qm start && chown -R 65534:65534 /tmp/src`)
	must(t, "polisctl up --repo /tmp/src /tmp/ws")
	must(t, "polisctl agents add alice --workspace ws --base custom --port 3000 && polisctl agents add bob --workspace ws --base custom")
	for _, a := range []string{"alice", "bob"} {
		require.Equal(t, "active", property(t, "polis-agent@"+a, "ActiveState"))
		require.Equal(t, "polis.slice", property(t, "polis-agent@"+a, "Slice"))
		require.Contains(t, must(t, "polisctl agents exec "+a+" -- sh -c 'cat a.txt; hostname'"), "one\n"+a)
	}
	// The sandbox's processes are in the agent's own unit, whatever the hierarchy.
	must(t, "polisctl agents exec alice -- sh -c 'setsid sleep 77777 >/dev/null 2>&1 </dev/null &'")
	eventually(t, "alice's sleep", func() bool { return sleeping(t) != 0 })
	require.Contains(t, readFile(t, fmt.Sprintf("/proc/%d/cgroup", sleeper(t))), "polis-agent@alice.service")
	must(t, "polisctl agents exec alice -- sh -c 'echo alice >> a.txt'")
	require.Contains(t, mustNot(t, "polisctl agents exec bob -- sh -c 'echo bob >> a.txt'"), "busy")
	require.Contains(t, property(t, "polisd.service", "StatusText"), "2", "the status line counts agents")
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(b)
}

// sleeper is the process that alice started.
func sleeper(t *testing.T) int {
	t.Helper()
	n := sleeping(t)
	require.NotZero(t, n, "alice's process is gone")
	return n
}

// sleeping is that process, or 0.
func sleeping(t *testing.T) int {
	t.Helper()
	for _, f := range glob("/proc/[0-9]*/cmdline") {
		if b, _ := os.ReadFile(f); strings.HasPrefix(string(b), "sleep\x0077777") {
			n, err := strconv.Atoi(strings.Split(f, "/")[2])
			require.NoError(t, err)
			return n
		}
	}
	return 0
}

func glob(pattern string) []string {
	m, _ := filepath.Glob(pattern)
	return m
}

// untouched runs f and requires that it did nothing to the agents.
func untouched(t *testing.T, f func()) {
	t.Helper()
	shim, process := pid(t, "polis-agent@alice"), sleeper(t)
	require.NotZero(t, shim)
	must(t, "polisctl agents exec alice -- sh -c ': >> a.txt'") // the lease again: it ends some time after the last write
	f()
	eventually(t, "polisd answers", func() bool { return answers(t) })
	require.Equal(t, shim, pid(t, "polis-agent@alice"))
	require.Equal(t, process, sleeper(t))
	require.Contains(t, must(t, "polisctl agents exec alice -- cat a.txt"), "alice")
	eventually(t, "alice's shim to reclaim its lease", func() bool { return strings.Contains(must(t, "polisctl locks"), "a.txt") })
	eventually(t, "bob is refused with EBUSY", func() bool {
		return strings.Contains(mustNot(t, "polisctl agents exec bob -- sh -c 'echo bob >> a.txt'"), "busy")
	})
	must(t, "polisctl agents exec bob -- sh -c 'echo bob >> b.txt'")
}

func restart(t *testing.T) {
	before := pid(t, "polisd")
	untouched(t, func() { must(t, "systemctl restart polisd") })
	require.NotEqual(t, before, pid(t, "polisd"))
	untouched(t, func() { must(t, "systemctl try-restart polisd") })
}

func killed(t *testing.T) {
	for range 2 {
		before := pid(t, "polisd")
		untouched(t, func() {
			require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
			eventually(t, "systemd starts another polisd", func() bool {
				return pid(t, "polisd") != before && property(t, "polisd", "ActiveState") == "active"
			})
		})
	}
}

func reload(t *testing.T) {
	before := pid(t, "polisd")
	must(t, "sed -i 's/^#max_agents = 10/max_agents = 2/' /etc/polis/polisd.toml && systemctl reload polisd")
	require.Equal(t, before, pid(t, "polisd"))
	eventually(t, "the new limit", func() bool {
		out, err := run(t, "polisctl --json agents add carol --workspace ws --base custom")
		if err == nil {
			must(t, "polisctl agents remove carol --force")
		}
		return err != nil && strings.Contains(out, "MAX_AGENTS")
	})
	// A reload with a configuration that is not valid fails, and polisd keeps the old one.
	untouched(t, func() {
		must(t, "sed -i 's/^max_agents = 2/max_agents = 10/' /etc/polis/polisd.toml && sed -i '1i nonsense = 1' /etc/polis/polisd.toml")
		mustNot(t, "systemctl reload polisd")
	})
	require.Equal(t, []string{"active", "exit-code"}, []string{property(t, "polisd", "ActiveState"), property(t, "polisd", "ReloadResult")})
	require.Equal(t, before, pid(t, "polisd"))
	require.Contains(t, must(t, "journalctl --no-pager -q -o cat -u polisd"), "nonsense")
	require.Contains(t, mustNot(t, "polisctl --json agents add carol --workspace ws --base custom"), "MAX_AGENTS")
	must(t, "sed -i '/^nonsense/d' /etc/polis/polisd.toml && systemctl reload polisd")
	eventually(t, "the new limit", func() bool {
		_, err := run(t, "polisctl agents add carol --workspace ws --base custom && polisctl agents remove carol --force")
		return err == nil
	})
}

// total sets what bounds polis.slice, changes it, changes a living agent below
// it, and takes it away again.
func total(t *testing.T) {
	const file = "/etc/polis/polisd.toml"
	set := func(memory, pids string) {
		must(t, "sed -i '/^# total/,$d' "+file+" && printf '# total\\n[limits.total]\\nmemory_mb = "+memory+"\\npids = "+pids+"\\ncpu = 190\\n' >> "+file+" && systemctl reload polisd")
	}
	untouched(t, func() {
		set("4096", "5000")
		eventually(t, "the limits", func() bool {
			return property(t, "polis.slice", "MemoryMax") == "4294967296" && property(t, "polis.slice", "TasksMax") == "5000" && property(t, "polis.slice", "CPUQuotaPerSecUSec") != "infinity"
		})
		set("8192", "6000")
		eventually(t, "the others", func() bool { return property(t, "polis.slice", "MemoryMax") == "8589934592" })
		must(t, "sed -i '/^# total/,$d' "+file+" && systemctl reload polisd")
		eventually(t, "no limits", func() bool {
			return property(t, "polis.slice", "MemoryMax") == "infinity" && property(t, "polis.slice", "TasksMax") == "infinity"
		})
	})
	must(t, "polisctl agents add lean --workspace ws --base custom --pids 100 && polisctl agents set lean --pids 20 --cpu 50 --memory 64")
	mustNot(t, "polisctl agents exec lean -- sh -ec 'for i in $(seq 40); do sleep 2 & done; wait'")
	// Agents compete as units: a weight below one would weigh nothing.
	must(t, "polisctl agents set lean --cpu-weight 250")
	for reloads := range 2 {
		weighed := 0
		for file, want := range map[string]string{"/cpu.weight": "250\n", "/cpu.shares": "2560\n"} {
			for _, f := range append(glob("/sys/fs/cgroup/polis.slice/polis-agent@lean.service"+file), glob("/sys/fs/cgroup/*/polis.slice/polis-agent@lean.service"+file)...) {
				require.Equal(t, want, readFile(t, f), "%s, reloads: %d", f, reloads)
				weighed++
			}
		}
		require.NotZero(t, weighed)
		must(t, "systemctl daemon-reload") // systemd leaves it at that
	}
	must(t, "polisctl agents set lean --cpu-weight 100")
	require.Equal(t, "100", property(t, "polis-agent@lean", "CPUWeight"))
	must(t, "polisctl agents set lean --cpu-weight 70")
	must(t, "polisctl agents remove lean --force")
	require.Empty(t, glob("/run/systemd/system.control/polis-agent*"))
}

func watchdog(t *testing.T) {
	must(t, "mkdir -p /etc/systemd/system/polisd.service.d && printf '[Service]\\nWatchdogSec=3\\n' > /etc/systemd/system/polisd.service.d/t.conf && systemctl daemon-reload && systemctl restart polisd")
	before := pid(t, "polisd")
	untouched(t, func() {
		require.NoError(t, syscall.Kill(before, syscall.SIGSTOP))
		eventually(t, "the watchdog to replace it", func() bool {
			return pid(t, "polisd") != before && property(t, "polisd", "ActiveState") == "active"
		})
	})
	require.Contains(t, must(t, "journalctl --no-pager -q -u polisd"), "Watchdog timeout")
	must(t, "rm -r /etc/systemd/system/polisd.service.d && systemctl daemon-reload && systemctl restart polisd")
	eventually(t, "polisd answers", func() bool { return answers(t) })
}

func outOfMemory(t *testing.T) {
	must(t, "polisctl agents add hog --workspace ws --base custom --memory 64")
	mustNot(t, `polisctl agents exec hog -- /usr/bin/python3 -c 'x = bytearray(300 << 20)'`)
	eventually(t, "the event", func() bool { return strings.Contains(must(t, "polisctl events"), "OOM_KILLED") })
	require.Equal(t, "active", property(t, "polis-agent@hog", "ActiveState"))
	must(t, "polisctl agents remove hog --force")
	eventually(t, "its unit ends", func() bool { return property(t, "polis-agent@hog", "ActiveState") == "inactive" })
}

func killedShim(t *testing.T) {
	must(t, "polisctl agents add dave --workspace ws --base custom")
	must(t, "polisctl agents exec dave -- sh -c 'setsid sh -c \"while :; do cat a.txt; echo x >> x.txt; done\" >/dev/null 2>&1 </dev/null &'")
	group := "/sys/fs/cgroup/*/polis.slice/polis-agent@dave.service/sandbox/cgroup.procs"
	processes := strings.Fields(must(t, "cat "+group+" /sys/fs/cgroup/polis.slice/polis-agent@dave.service/sandbox/cgroup.procs 2>/dev/null || true"))
	require.NotEmpty(t, processes)
	work := startWork(t)
	require.NoError(t, syscall.Kill(pid(t, "polis-agent@dave"), syscall.SIGKILL))
	eventually(t, "the agent is seen to be dead", func() bool {
		var list struct {
			Agents []struct{ Name, Status string }
		}
		require.NoError(t, json.Unmarshal([]byte(must(t, "polisctl --json agents list")), &list))
		for _, a := range list.Agents {
			if a.Name == "dave" {
				return a.Status == "Error" || a.Status == "Stopped"
			}
		}
		return false
	})
	require.NotContains(t, readFile(t, "/proc/self/mounts"), "worktrees/dave")
	require.Contains(t, must(t, "polisctl --json agents list"), "its shim died")
	for _, p := range processes {
		require.NoDirExists(t, "/proc/"+p)
	}
	require.Empty(t, glob(group))
	require.Empty(t, glob("/run/polis/netns/dave"))
	require.Empty(t, glob("/run/polis/agents/dave"))
	work.finish(t)
	must(t, "polisctl agents start dave && polisctl agents exec dave -- cat a.txt && polisctl agents remove dave --force")
}

// readme runs every command of the README's first steps, in order, in a project of root's. Claude
// is a stand-in that follows its script.
func readme(t *testing.T) {
	must(t, `cat > /usr/local/bin/claude <<'P'
#!/bin/sh
echo "claude: $*"; echo done > by-claude.txt; git add by-claude.txt; git -c user.name=c -c user.email=c@example.com commit -qm "$2"
P
chmod 755 /usr/local/bin/claude
mkdir -p ~/src/project/docs && cd ~/src/project && git init -q -b main && echo x > docs/x.md && git add . && git -c user.name=x -c user.email=x@y commit -qm start`)
	_, text, found := strings.Cut(readFile(t, "tree/README.md"), "## First steps")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	commands := 0
	for _, line := range strings.Split(text, "\n") {
		line, ok := strings.CutPrefix(line, "    ")
		if !ok || strings.HasPrefix(line, "cd ") {
			continue
		}
		commands++
		line, _, _ = strings.Cut(line, "  #")
		script := "cd ~/src/project; " + line
		switch {
		case strings.Contains(line, "watch -f"):
			script = "cd ~/src/project; timeout 5 " + line + " || test $? = 124"
		case strings.Contains(line, " shell "):
			script = "printf 'exit 0\\n' | script -qec '" + line + "' /dev/null"
		case strings.Contains(line, " tui"):
			script = "(sleep 1; printf q) | TERM=xterm timeout 30 script -qec '" + line + "' /dev/null"
		case strings.Contains(line, " queue"):
			// The files are in the project before the merge is recorded, which the revert needs.
			eventually(t, "claude's work in the project", func() bool {
				_, err := run(t, "test -e ~/src/project/by-claude.txt && polisctl events | grep -q 'task claude.1 of agent claude: merged as'")
				return err == nil
			})
		}
		t.Log(line)
		t.Log(must(t, script))
	}
	require.GreaterOrEqual(t, commands, 5)
	must(t, "test ! -e ~/src/project/by-claude.txt")
	must(t, "cd ~/src/project && git log --merges --format=%s main | grep claude")
	must(t, "cd ~/src/project && polisctl agents add docs --base custom --read '**' --write 'docs/**' --deny .env --port 3000")
	must(t, "polisctl agents exec docs -- sh -c 'echo y > docs/y.md'")
	mustNot(t, "polisctl agents exec docs -- sh -c 'echo y > y.md'")
	must(t, "polisctl agents remove claude docs --force")
}

// traces lists what a running polis has on the machine.
func traces(t *testing.T) string {
	// Each line is for itself: most of them find nothing, which grep reports as a failure.
	out, _ := run(t, `exec 2>/dev/null; set +e
grep -E 'polis|/tmp/ws' /proc/self/mounts | grep -v -e ' / ' -e /run/guest
ip -o link | grep -i polis
nft list tables | grep polis
find /sys/fs/cgroup -path '*polis.slice/*' -name sandbox
pgrep -a '^(polisd|polis-shim)$'
pgrep -a -f '[s]leep 77777'
ls /run/polis/netns /run/polis/agents 2>/dev/null
find /run/polis -type s 2>/dev/null
ip netns list`)
	return strings.TrimSpace(out)
}

func stop(t *testing.T) {
	must(t, "systemctl stop polisd")
	var left string
	eventually(t, "everything to be gone", func() bool { left = traces(t); return left == "" || t.Context().Err() != nil })
	require.Empty(t, left)
	for _, u := range []string{"polisd.service", "polisd.socket", "polis-agent@alice.service"} {
		require.Equal(t, "inactive", property(t, u, "ActiveState"), "%s\n%s", u, journal(t))
	}
	require.Equal(t, "one\nalice\n", must(t, "cat /tmp/ws/.polis/worktrees/alice/a.txt"), "the work stays on disk")
}

func startAgain(t *testing.T) {
	must(t, "systemctl start polisd")
	eventually(t, "polisd answers", func() bool { return answers(t) })
	out := must(t, "polisctl --json agents list")
	require.Contains(t, out, `"alice"`)
	require.Contains(t, out, `"bob"`)
	must(t, "polisctl agents exec alice -- cat a.txt && polisctl agents exec bob -- cat b.txt") // without a start of their own
	require.Contains(t, must(t, "polisctl ports list"), "3000")
	must(t, "polisctl agents exec alice -- sh -c 'git add -A && git -c user.name=a -c user.email=a@b commit -qm work' && polisctl merge alice && grep -q alice /tmp/src/a.txt")
}

func activation(t *testing.T) {
	must(t, "systemctl stop polisd && systemctl start polisd.socket")
	require.Equal(t, "inactive", property(t, "polisd", "ActiveState"))
	must(t, "polisctl --timeout 30s status")
	require.Equal(t, "active", property(t, "polisd", "ActiveState"))
}

func uninstall(t *testing.T) {
	must(t, "polisctl agents remove alice bob --force")
	must(t, "make -C tree uninstall")
	require.Empty(t, traces(t))
	mustNot(t, "command -v polisd")
	must(t, "test -e /etc/polis/polisd.toml && test -e /tmp/ws/.polis")
	text := must(t, "journalctl --no-pager -q -o cat")
	require.NotContains(t, text, "panic:")
	require.NotContains(t, text, "DATA RACE")
}
