//go:build seccomp

package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestProcessesAreUnprivileged(t *testing.T) {
	s := create(t, testConfig(t))
	status := sh(t, s, "cat /proc/self/status")
	field := func(name string) string {
		for line := range strings.Lines(status) {
			if k, v, ok := strings.Cut(line, ":"); ok && k == name {
				return strings.TrimSpace(v)
			}
		}
		return ""
	}
	uid, gid := strconv.Itoa(testUID), strconv.Itoa(testGID)
	require.Equal(t, []string{uid, uid, uid, uid}, strings.Fields(field("Uid")))
	require.Equal(t, []string{gid, gid, gid, gid}, strings.Fields(field("Gid")))
	require.Empty(t, field("Groups"))
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		require.Equal(t, "0000000000000000", field(set), set)
	}
	require.Equal(t, "1", field("NoNewPrivs"))
	require.Equal(t, "2", field("Seccomp"))

	require.Equal(t, "300", sh(t, s, "cat /proc/self/oom_score_adj"))

	// Process 1 is no exception.
	status = hostStatus(t, s.InitPid())
	require.Equal(t, uid, strings.Fields(field("Uid"))[0])
	require.Equal(t, "0000000000000000", field("CapBnd"))
	require.Equal(t, "1", field("NoNewPrivs"))
	require.Equal(t, "2", field("Seccomp"))
}

func hostStatus(t testing.TB, pid int) string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	return string(b)
}

func TestUserIsKnownByName(t *testing.T) {
	cfg := testConfig(t)
	cfg.Groups = []int{testGID + 1}
	s := create(t, cfg)
	require.Equal(t, "agent", sh(t, s, "id -un"))
	require.Equal(t, "agent", sh(t, s, "id -gn"))
	require.Equal(t, strconv.Itoa(testGID+1), strings.Fields(sh(t, s, "id -G"))[1])
	require.Equal(t, "/home/agent", sh(t, s, "cd ~agent && pwd"))
	require.Equal(t, "/home/agent", sh(t, s, "pwd"))
	require.Equal(t, "claude", sh(t, s, "hostname"))
	require.Contains(t, sh(t, s, "getent hosts claude"), "127.0.1.1")
}

// Feature: multi-agent-workspaces, Property 26: Mount Namespace Isolation (Full Mode)
func TestHostIsInvisible(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("host"), 0o644))
	host := exec.Command("sleep", "98765")
	require.NoError(t, host.Start())
	defer func() { _ = host.Process.Kill(); _ = host.Wait() }()

	s := create(t, testConfig(t))
	other := create(t, testConfig(t))
	neighbour, err := other.Start(Process{Args: []string{"sleep", "87654"}})
	require.NoError(t, err)

	ps := sh(t, s, "ps ax")
	require.NotContains(t, ps, "98765")
	require.NotContains(t, ps, "87654")
	for _, pid := range []int{host.Process.Pid, neighbour.Pid(), os.Getpid()} {
		out, code := run(t, s, "/bin/sh", "-c", fmt.Sprintf("kill -9 %d", pid))
		require.NotZero(t, code, out)
	}
	for _, p := range []string{secret, "/var/lib", "/var/log", "/root/go", "/home/user", "/srv", "/mnt", "/boot"} {
		_, code := run(t, s, "test", "-e", p)
		require.NotZero(t, code, p)
	}
	require.Empty(t, sh(t, s, "ls -A /tmp /dev/shm /home/agent | grep -v : | grep . || true"))
	// A namespace of its own for each kind.
	for _, ns := range []string{"mnt", "pid", "ipc", "uts", "net", "cgroup"} {
		own, err := os.Readlink("/proc/self/ns/" + ns)
		require.NoError(t, err)
		require.NotEqual(t, own, sh(t, s, "readlink /proc/self/ns/"+ns), ns)
	}
}

func TestTemporaryDirectoriesArePrivateAndExecutable(t *testing.T) {
	s := create(t, testConfig(t))
	for _, dir := range []string{"/tmp", "/var/tmp", "$HOME", "$XDG_RUNTIME_DIR", "/dev/shm"} {
		require.Equal(t, "ran", sh(t, s, `cd `+dir+` && printf '#!/bin/sh\necho ran\n' > prog && chmod +x prog && ./prog`), dir)
	}
	require.Equal(t, "1777", sh(t, s, "stat -c %a /tmp"))
}

func TestSetuidProgramsHaveNoEffect(t *testing.T) {
	cfg := testConfig(t)
	id, err := os.ReadFile("/usr/bin/id")
	require.NoError(t, err)
	for _, dir := range []string{cfg.HomeDir, cfg.ScratchDir} {
		p := filepath.Join(dir, "suid")
		require.NoError(t, os.WriteFile(p, id, 0o755))
		require.NoError(t, os.Chmod(p, 0o755|os.ModeSetuid|os.ModeSetgid))
	}
	s := create(t, cfg)
	for _, p := range []string{"/home/agent/suid", "/var/tmp/suid"} {
		out, code := run(t, s, p)
		require.Zero(t, code)
		require.Equal(t, fmt.Sprintf("uid=%d(agent) gid=%d(agent) groups=%d(agent)", testUID, testGID, testGID), out)
	}
}

func TestExitCodes(t *testing.T) {
	s := create(t, testConfig(t))
	for script, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "exit 255": 255, "kill -TERM $$": 143, "kill -KILL $$": 137, "kill -SEGV $$": 139,
	} {
		out, code := run(t, s, "/bin/sh", "-c", script)
		require.Equal(t, want, code, "%s: %s", script, out)
	}
}

func TestWhatCannotBeExecuted(t *testing.T) {
	s := create(t, testConfig(t))
	sh(t, s, "echo text > ~/text; chmod +x ~/text; echo x > ~/plain")
	for name, p := range map[string]Process{
		"unknown program":   {Args: []string{"no-such-program"}},
		"unknown path":      {Args: []string{"/no/such/program"}},
		"directory":         {Args: []string{"/usr"}},
		"not executable":    {Args: []string{"/home/agent/plain"}},
		"unknown directory": {Args: []string{"true"}, Cwd: "/no/such/place"},
	} {
		_, err := s.Start(p)
		require.ErrorIs(t, err, ErrNotFound, name)
	}
	for name, p := range map[string]Process{
		"no program":         {},
		"empty program":      {Args: []string{""}},
		"zero byte":          {Args: []string{"echo", "a\x00b"}},
		"zero byte in env":   {Args: []string{"true"}, Env: []string{"A=\x00"}},
		"relative directory": {Args: []string{"true"}, Cwd: "tmp"},
	} {
		_, err := s.Start(p)
		require.ErrorIs(t, err, ErrConfig, name)
	}
	// Only the kernel's exec finds that out, and then the process is there already.
	out, code := run(t, s, "/home/agent/text")
	require.Equal(t, 255, code)
	require.Contains(t, out, "exec format error")
	require.Equal(t, "ok", sh(t, s, "echo ok"), "still usable")
}

func TestEnvironmentAndDirectory(t *testing.T) {
	cfg := testConfig(t)
	cfg.Env = []string{"A=config", "B=config"}
	cfg.Workdir = "/tmp"
	s := create(t, cfg)
	out, code := runProcess(t, s, Process{Args: []string{"/bin/sh", "-c", "echo $A $B $C $HOME; pwd"}, Env: []string{"B=process", "C=a=b"}, Cwd: "/usr"})
	require.Zero(t, code)
	require.Equal(t, "config process a=b /home/agent\n/usr", out)
	require.Equal(t, "/tmp", sh(t, s, "pwd"))
	// Nothing of the supervisor's environment.
	t.Setenv("POLIS_TEST_SECRET", "s3cret")
	require.NotContains(t, sh(t, s, "env"), "s3cret")
}

func TestPipesReachTheProcess(t *testing.T) {
	s := create(t, testConfig(t))
	in, feed, err := os.Pipe()
	require.NoError(t, err)
	data := strings.Repeat("x", 1<<20)
	go func() { _, _ = io.WriteString(feed, data); feed.Close() }()
	out, code := runProcess(t, s, Process{Args: []string{"wc", "-c"}, Stdin: in})
	in.Close()
	require.Zero(t, code)
	require.Equal(t, strconv.Itoa(len(data)), out)
	// Without files: no input, and output that goes nowhere.
	p, err := s.Start(Process{Args: []string{"/bin/sh", "-c", "cat && echo lost"}})
	require.NoError(t, err)
	code, err = p.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
}

func TestSignals(t *testing.T) {
	s := create(t, testConfig(t))
	p, err := s.Start(Process{Args: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.NoError(t, p.Signal(unix.SIGTERM))
	code, err := p.Wait()
	require.NoError(t, err)
	require.Equal(t, 143, code)
	require.ErrorIs(t, p.Signal(unix.SIGTERM), os.ErrProcessDone)

	p, err = s.Start(Process{Args: []string{"/bin/sh", "-c", "sleep 1000 | sleep 1000"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return strings.Count(sh(t, s, "ps ax -o args"), "\nsleep 1000") == 2
	}, 10*time.Second, 10*time.Millisecond)
	require.NoError(t, p.SignalGroup(unix.SIGTERM))
	_, err = p.Wait()
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return !strings.Contains(sh(t, s, "ps ax -o args"), "\nsleep")
	}, 10*time.Second, 10*time.Millisecond)
}

// terminalOf collects what a terminal shows, until the end.
type terminalOf struct {
	mu   sync.Mutex
	text strings.Builder
}

func watchTerminal(p *Proc) *terminalOf {
	w := &terminalOf{}
	go func() {
		buf := make([]byte, 1024)
		for {
			n, err := p.Console().Read(buf)
			w.mu.Lock()
			w.text.Write(buf[:n])
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	return w
}

func (w *terminalOf) has(t testing.TB, want string) {
	t.Helper()
	ok := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(w.text.String(), want)
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Fatalf("terminal does not show %q: %q", want, w.text.String())
}

func TestTerminal(t *testing.T) {
	s := create(t, testConfig(t))
	p, err := s.Start(Process{
		Args: []string{"/bin/bash", "--norc", "--noprofile"}, TTY: true, Rows: 31, Cols: 117, Env: []string{"TERM=xterm", "PS1=ready-$ "},
	})
	require.NoError(t, err)
	defer p.Console().Close()
	w := watchTerminal(p)
	w.has(t, "ready-$ ")
	say := func(s string) {
		_, err := io.WriteString(p.Console(), s)
		require.NoError(t, err)
	}
	say("test -t 0 && test -t 1 && echo is''atty; tty\n")
	w.has(t, "isatty")
	w.has(t, "/dev/pts/0")
	say("stty size\n")
	w.has(t, "31 117")
	require.NoError(t, p.Resize(44, 55))
	say("stty size\n")
	w.has(t, "44 55")
	// Ctrl-C reaches the foreground, the shell lives on.
	say("sleep 1000; echo st''opped $?\n")
	require.Eventually(t, func() bool {
		return strings.Contains(sh(t, s, "ps ax -o args"), "\nsleep 1000")
	}, 10*time.Second, 10*time.Millisecond)
	say("\x03")
	say("echo aft''er\n")
	w.has(t, "after")
	say("exit 7\n")
	code, err := p.Wait()
	require.NoError(t, err)
	require.Equal(t, 7, code)
	require.NoError(t, p.Console().Close())
	require.Error(t, p.Resize(1, 1))
}

func TestInterruptEndsAProgramWithTerminal(t *testing.T) {
	s := create(t, testConfig(t))
	p, err := s.Start(Process{Args: []string{"sleep", "1000"}, TTY: true, Rows: 24, Cols: 80})
	require.NoError(t, err)
	defer p.Console().Close()
	_, err = p.Console().Write([]byte{3})
	require.NoError(t, err)
	code, err := p.Wait()
	require.NoError(t, err)
	require.Equal(t, 130, code)
}

// Feature: multi-agent-workspaces, Property 15: Memory Limit Enforcement
func TestMemoryHogIsKilledAndNamed(t *testing.T) {
	cfg := testConfig(t)
	cfg.Limits.MemoryBytes = 96 << 20
	s := create(t, cfg)
	bystander, err := s.Start(Process{Args: []string{"sleep", "1000"}})
	require.NoError(t, err)
	hog, err := s.Start(Process{Args: []string{initPath}, Env: []string{insideEnv + "=hog"}})
	require.NoError(t, err)
	code, err := hog.Wait()
	require.NoError(t, err)
	require.Equal(t, 137, code)
	select {
	case e := <-s.OOM():
		require.Equal(t, hog.Pid(), e.Pid)
		require.Equal(t, "polis-init", e.Comm)
		require.NotZero(t, e.Count)
		require.WithinDuration(t, time.Now(), e.Time, 30*time.Second)
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	st, err := s.Stats()
	require.NoError(t, err)
	require.NotZero(t, st.OOMKills)
	require.EqualValues(t, 96<<20, st.MemoryLimit)
	require.LessOrEqual(t, st.MemoryBytes, uint64(96<<20))
	require.NotZero(t, st.CPU)
	require.NoError(t, bystander.Signal(0), "one process is killed, and not all")
	require.EqualValues(t, 1, st.OOMKills)
	require.Equal(t, "ok", sh(t, s, "echo ok"), "process 1 was spared")
}

func TestOOMVictimIsGuessedWithoutAKernelLog(t *testing.T) {
	s := &Sandbox{killed: map[int]killed{41: {time.Now().Add(-time.Hour), "old"}, 42: {time.Now(), "node"}}}
	pid, comm := s.guess(time.Now())
	require.Equal(t, 42, pid)
	require.Equal(t, "node", comm)
	s.killed = map[int]killed{}
	pid, _ = s.guess(time.Now())
	require.Zero(t, pid)
}

func TestProcessLimit(t *testing.T) {
	cfg := testConfig(t)
	cfg.Limits.Pids = 20
	s := create(t, cfg)
	out, code := run(t, s, "/bin/dash", "-c", "for i in $(seq 100); do sleep 1000 >/dev/null 2>&1 & done")
	require.NotZero(t, code)
	require.Contains(t, out, "Cannot fork")
	st, err := s.Stats()
	require.NoError(t, err)
	require.LessOrEqual(t, st.Pids, uint64(20))
	require.EqualValues(t, 20, st.PidsLimit)
}

// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestDestroyKillsWhatWasDaemonised(t *testing.T) {
	cfg := testConfig(t)
	s := create(t, cfg)
	sh(t, s, `
		trap '' TERM HUP INT
		for i in 1 2 3; do (setsid sh -c 'trap "" TERM HUP; (setsid sleep 76543 >/dev/null 2>&1 &) &' >/dev/null 2>&1 &); done
		nohup setsid sleep 76543 >/dev/null 2>&1 &`)
	require.Eventually(t, func() bool { return hostProcesses("sleep 76543") == 4 }, 30*time.Second, 10*time.Millisecond)
	running, err := s.Start(Process{Args: []string{"sleep", "76543"}})
	require.NoError(t, err)
	pids, err := s.Pids()
	require.NoError(t, err)
	require.Len(t, pids, 6)
	require.Contains(t, pids, s.InitPid())

	require.NoError(t, s.Destroy(t.Context()))
	for _, pid := range pids {
		require.ErrorIs(t, unix.Kill(pid, 0), unix.ESRCH)
	}
	require.Zero(t, hostProcesses("sleep 76543"))
	code, err := running.Wait()
	require.NoError(t, err)
	require.Equal(t, 137, code)
	<-s.Done()
	_, ok := <-s.OOM()
	require.False(t, ok)
	requireGone(t, cfg)

	_, err = s.Start(Process{Args: []string{"true"}})
	require.ErrorIs(t, err, ErrGone)
	require.NoError(t, s.Destroy(t.Context()), "again")
	// Files of the agent are not the sandbox's.
	require.DirExists(t, cfg.HomeDir)
}

// hostProcesses counts the machine's processes with these arguments.
func hostProcesses(args string) int {
	n := 0
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		b, _ := os.ReadFile(f)
		if strings.Join(strings.Split(strings.TrimRight(string(b), "\x00"), "\x00"), " ") == args {
			n++
		}
	}
	return n
}

func TestSignalReachesAllButInit(t *testing.T) {
	s := create(t, testConfig(t))
	sh(t, s, "setsid sleep 65432 >/dev/null 2>&1 & sleep 0.05")
	p, err := s.Start(Process{Args: []string{"sleep", "65432"}})
	require.NoError(t, err)
	require.Eventually(t, func() bool { return hostProcesses("sleep 65432") == 2 }, 30*time.Second, 10*time.Millisecond)
	require.NoError(t, s.Signal(unix.SIGTERM))
	_, err = p.Wait()
	require.NoError(t, err)
	require.Eventually(t, func() bool { return hostProcesses("sleep 65432") == 0 }, 30*time.Second, 10*time.Millisecond)
	require.Equal(t, "ok", sh(t, s, "echo ok"))
}

func TestInitCannotBeKilledFromInsideAndReaps(t *testing.T) {
	s := create(t, testConfig(t))
	for _, sig := range []string{"TERM", "KILL", "INT", "HUP", "STOP", "SEGV", "USR1", "CHLD"} {
		run(t, s, "/bin/sh", "-c", "kill -"+sig+" 1")
	}
	sh(t, s, "for i in 1 2 3 4 5; do (sh -c 'sh -c \"exit 0\" & exec true' &); done")
	require.Eventually(t, func() bool {
		return !strings.Contains(sh(t, s, "ps ax -o stat,args"), "Z")
	}, 10*time.Second, 10*time.Millisecond)
	select {
	case <-s.Done():
		t.Fatal("process 1 is gone")
	default:
	}
	// From outside it ends, and everything with it.
	p, err := s.Start(Process{Args: []string{"sleep", "1000"}})
	require.NoError(t, err)
	require.NoError(t, unix.Kill(s.InitPid(), unix.SIGTERM))
	<-s.Done()
	code, err := p.Wait()
	require.NoError(t, err)
	require.Equal(t, 137, code)
	_, err = s.Start(Process{Args: []string{"true"}})
	require.ErrorIs(t, err, ErrGone)
}

func TestFiftyExecutionsLeaveNothing(t *testing.T) {
	cfg := testConfig(t)
	s := create(t, cfg)
	sh(t, s, "true")
	// Tests of other packages mount and unmount meanwhile.
	below := filepath.Dir(cfg.RootfsDir) + "/"
	count := func() (fds, mounts, children int) {
		d, err := os.ReadDir("/proc/thread-self/fd")
		require.NoError(t, err)
		b, err := os.ReadFile("/proc/thread-self/mountinfo")
		require.NoError(t, err)
		tasks, err := filepath.Glob("/proc/self/task/*/children")
		require.NoError(t, err)
		for _, f := range tasks {
			c, _ := os.ReadFile(f)
			children += len(strings.Fields(string(c)))
		}
		return len(d), strings.Count(string(b), " "+below), children
	}
	fds, mounts, children := count()
	goroutines := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for range 5 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for range 10 {
				out, code := run(t, s, "/bin/sh", "-c", "echo x")
				if out != "x" || code != 0 {
					t.Errorf("got %q, %d", out, code)
				}
			}
		}()
	}
	wg.Wait()
	var now string
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		f, m, c := count()
		if f <= fds && m == mounts && c == children && runtime.NumGoroutine() <= goroutines {
			now = ""
			break
		}
		now = fmt.Sprintf("files %d, were %d; mounts %d, were %d; children %d, were %d; goroutines %d, were %d",
			f, fds, m, mounts, c, children, runtime.NumGoroutine(), goroutines)
	}
	require.Empty(t, now)
	pids, err := s.Pids()
	require.NoError(t, err)
	require.Equal(t, []int{s.InitPid()}, pids)
}

const parentEnv = "POLIS_TEST_PARENT"

// parentMain makes a sandbox and waits to be killed.
func parentMain(text string) {
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		os.Exit(2)
	}
	s, err := Create(context.Background(), cfg)
	if err != nil {
		fmt.Println(err)
		os.Exit(3)
	}
	if _, err := s.Start(Process{Args: []string{"/bin/sh", "-c", `setsid sleep 54321 &
if test -n "$TRY_TO_ESCAPE"; then
	setsid sleep 54321 &
	while ! test -e $HOME/try; do sleep 0.01; done
	unshare -U sleep 54321
	touch $HOME/answered
fi
exec sleep 54321`}}); err != nil {
		fmt.Println(err)
		os.Exit(4)
	}
	fmt.Println("ready")
	select {}
}

func startParent(t *testing.T, cfg Config) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	exe, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), parentEnv+"="+string(text))
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "ready\n", line)
	require.Eventually(t, func() bool { return hostProcesses("sleep 54321") == 2 }, 30*time.Second, 10*time.Millisecond)
	return cmd
}

// Feature: multi-agent-workspaces, Property 28: Process Reaping on Removal
func TestCleanupAfterTheParentWasKilled(t *testing.T) {
	for name, shared := range map[string]Shared{"in its namespaces": {}, "without one for processes": {PID: true}} {
		t.Run(name, func(t *testing.T) { cleanupAfterTheParentWasKilled(t, shared) })
	}
}

func cleanupAfterTheParentWasKilled(t *testing.T, shared Shared) {
	cfg := testConfig(t)
	cfg.Shared = shared
	parent := startParent(t, cfg)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool { return hostProcesses("sleep 54321") == 0 }, 30*time.Second, 10*time.Millisecond,
		"the sandbox outlives its creator")
	require.DirExists(t, cfg.RootfsDir)
	for range 2 { // idempotent
		require.NoError(t, Cleanup(t.Context(), cfg.StateDir, cfg.ID, cfg.RootfsDir, cfg.CgroupPath))
		requireGone(t, cfg)
	}
	// And it can be made again over what a crash left.
	parent = startParent(t, cfg)
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool { return hostProcesses("sleep 54321") == 0 }, 30*time.Second, 10*time.Millisecond)
	s := create(t, cfg)
	require.Equal(t, "ok", sh(t, s, "echo ok"))
}

func TestCleanupKillsWhatStillRuns(t *testing.T) {
	cfg := testConfig(t)
	parent := startParent(t, cfg)
	// The parent hangs: process 1 does not notice.
	require.NoError(t, parent.Process.Signal(unix.SIGSTOP))
	_, err := Create(t.Context(), cfg)
	require.ErrorIs(t, err, ErrCgroup, "in use")
	require.Equal(t, 2, hostProcesses("sleep 54321"))
	require.NoError(t, Cleanup(t.Context(), cfg.StateDir, cfg.ID, cfg.RootfsDir, cfg.CgroupPath))
	require.Zero(t, hostProcesses("sleep 54321"))
	requireGone(t, cfg)
}
