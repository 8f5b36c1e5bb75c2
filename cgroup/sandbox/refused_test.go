//go:build seccomp

package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func TestOrdinaryProgramsEmitNoEvents(t *testing.T) {
	s := create(t, testConfig(t))
	for program, script := range map[string]string{
		"git":     "cd $HOME && git init -q r && cd r && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && git log -1",
		"python3": "python3 -c 'import socket, subprocess, threading, multiprocessing, resource; subprocess.run([\"true\"]); threading.Thread(target=print).start(); socket.socket().close(); p = multiprocessing.Process(target=print); p.start(); p.join(); resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))'",
		"node":    "node -e 'require(\"child_process\").execSync(\"true\"); require(\"fs\").readdirSync(\"/\"); require(\"dns\").lookup(\"localhost\", () => {})'",
		"npm":     "npm --version",
		"go":      "PATH=$PATH:/usr/local/go/bin; go version && go list fmt",
		"bash":    "bash -c 'ulimit -n 1024; (sleep 0) & wait; ls -l / >/dev/null; getent hosts localhost'",
		"ip":      "ip -o address show dev lo",
		"ps":      "ps ax",
		"find":    "find /usr/bin -maxdepth 1 -newer /etc/passwd",
		"gcc":     "cd /tmp && printf 'int main(void) { return 0; }' > a.c && gcc -o a a.c && ./a",
	} {
		if _, err := exec.LookPath(program); err != nil {
			continue
		}
		sh(t, s, script)
		require.Empty(t, record(t, s), program)
	}
}

func TestARefusedCallNamesItsProcess(t *testing.T) {
	s := create(t, testConfig(t))
	p, err := s.Start(Process{Args: []string{"python3", "-c", `
import ctypes, threading
libc = ctypes.CDLL(None)
t = threading.Thread(target=lambda: libc.chroot(b"/tmp")); t.start(); t.join()
`}})
	require.NoError(t, err)
	code, err := p.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	c := record(t, s)["chroot"]
	require.Equal(t, p.Pid(), c.Pid, "the process, not its thread")
	require.Equal(t, "python3", c.Program)
	require.Equal(t, KindNamespace, c.Kind)

	// A child that is gone when it has its answer.
	sh(t, s, "unshare -U true || true")
	require.Equal(t, "unshare", record(t, s)["unshare CLONE_NEWUSER"].Program)
}

// With processes of the host in sight, to trace one is an escape; with user
// namespaces, to make one is none.
func TestWhichCallsAreAuditedDependsOnTheSandbox(t *testing.T) {
	// One after the other: where processes are shared, orphans are reaped for one
	// sandbox only.
	t.Run("shared processes", func(t *testing.T) {
		cfg := testConfig(t)
		cfg.Shared.PID = true
		s := create(t, cfg)
		out, code := run(t, s, "python3", "-c", "import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0))")
		require.Zero(t, code)
		require.Equal(t, "-1", out)
		require.Contains(t, record(t, s), "ptrace process 1, request 0x10")
	})
	t.Run("user namespaces", func(t *testing.T) {
		cfg := testConfig(t)
		cfg.UserNamespaces = true
		s := create(t, cfg)
		out, _ := run(t, s, "unshare", "-Urmn", "sh", "-c", "mount -t tmpfs none /tmp && hostname x; python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)'")
		require.Contains(t, out, "PermissionError")
		require.Equal(t, []string{"socket AF_PACKET, SOCK_RAW"}, slices.Collect(maps.Keys(record(t, s))))
	})
}

func TestASandboxWithoutAuditRefusesTheSame(t *testing.T) {
	cfg := testConfig(t)
	cfg.ReportDenied = false
	s := create(t, cfg)
	_, open := <-s.Refused()
	require.False(t, open)
	requireEscapesFail(t, s)
}

// nestedEnv has the test binary make the sandbox of that configuration below a
// filter with a listener of another's, and run every escape in it.
const nestedEnv = "POLIS_TEST_NESTED"

func nestedMain(text string) error {
	if os.Getenv(nestedEnv+"_BELOW") == "" {
		runtime.LockOSThread()
		if err := listenAround(); err != nil {
			return err
		}
		return unix.Exec("/proc/self/exe", os.Args, append(os.Environ(), nestedEnv+"_BELOW=1"))
	}
	var cfg Config
	if err := json.Unmarshal([]byte(text), &cfg); err != nil {
		return err
	}
	cfg.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := Create(ctx, cfg)
	if err != nil {
		return err
	}
	select {
	case <-s.Refused():
	default:
		return errors.Join(errors.New("calls are audited"), s.Destroy(ctx))
	}
	p, err := s.Start(Process{Args: []string{initPath}, Env: []string{insideEnv + "=escape"}, Stdout: os.Stdout})
	if err == nil {
		_, err = p.Wait()
	}
	return errors.Join(err, s.Destroy(ctx))
}

// Where a filter with a listener is around the maker of the sandbox already, or
// whatever else keeps it from having one, there is a sandbox all the same.
func TestASandboxBelowAnotherListener(t *testing.T) {
	cfg := testConfig(t)
	text, err := json.Marshal(cfg)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), nestedEnv+"="+string(text))
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.Output()
	require.NoError(t, err, log.String())
	require.Contains(t, log.String(), "denied system calls are not audited")
	require.Contains(t, log.String(), "device or resource busy")
	requireRefused(t, string(out))
	requireGone(t, cfg)
}

// listenAround installs an empty filter with a listener in this thread, and keeps the listener
// through an exec: the kernel then allows no other.
func listenAround() error {
	allow := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: saysAllow}}
	prog := unix.SockFprog{Len: 1, Filter: &allow[0]}
	fd, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, uintptr(unsafe.Pointer(&prog)))
	if e != 0 {
		return e
	}
	_, err := unix.FcntlInt(fd, unix.F_SETFD, 0)
	return err
}

// A program that calls in a loop waits for its answers: it is slowed down, the
// maker of the sandbox is neither busy nor does it grow, and others work on.
func TestAFloodOfRefusedCalls(t *testing.T) {
	s := create(t, testConfig(t))
	start, used, memory := time.Now(), cpuTime(t), residentKB(t, os.Getpid())
	flood, err := s.Start(Process{Args: []string{"python3", "-c", `
import ctypes, threading
libc = ctypes.CDLL(None)
def many():
    for i in range(10000): libc.chroot(b"/tmp")
all = [threading.Thread(target=many) for i in range(4)]
for t in all: t.start()
for t in all: t.join()
`}})
	require.NoError(t, err)
	audited := 0
	others := 0
	for running := true; running; {
		select {
		case _, ok := <-s.Refused():
			require.True(t, ok)
			audited++
		case <-flood.Done():
			running = false
		}
		if time.Since(start) > time.Duration(others+1)*2*time.Second {
			others++
			before := time.Now()
			out, code := run(t, s, "/bin/sh", "-c", "echo ok; chroot /tmp true 2>&1")
			require.NotZero(t, code)
			require.Contains(t, out, "ok")
			require.Contains(t, out, "Operation not permitted")
			require.Less(t, time.Since(before), time.Minute)
		}
	}
	code, err := flood.Wait()
	require.NoError(t, err)
	require.Zero(t, code)
	took, busy := time.Since(start), cpuTime(t)-used
	t.Logf("40000 refused calls in %s, %d were audited; %s of processor time (%.0f%%), with %d other programs", took, audited, busy, 100*busy.Seconds()/took.Seconds(), others)
	require.Positive(t, others)
	require.Greater(t, took, 5*time.Second, "it is slowed down")
	require.Less(t, busy.Seconds(), took.Seconds()/2)
	require.Less(t, residentKB(t, os.Getpid())-memory, 64<<10, "kilobytes")
}

// cpuTime is what this process has used.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u unix.Rusage
	require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Who calls while the supervisor is stopped waits, and ends with it.
func TestACallWithoutAnAnswerEndsWithItsSandbox(t *testing.T) {
	cfg := testConfig(t)
	cfg.Env = []string{"TRY_TO_ESCAPE=1"}
	parent := startParent(t, cfg)
	require.NoError(t, parent.Process.Signal(unix.SIGSTOP))
	require.NoError(t, os.WriteFile(filepath.Join(cfg.HomeDir, "try"), nil, 0o644))
	require.Eventually(t, func() bool { return hostProcesses("unshare -U sleep 54321") == 1 }, 30*time.Second, 10*time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	require.Equal(t, 1, hostProcesses("unshare -U sleep 54321"), "it waits")
	require.NoFileExists(t, filepath.Join(cfg.HomeDir, "answered"))
	require.NoError(t, parent.Process.Kill())
	_ = parent.Wait()
	require.Eventually(t, func() bool {
		return hostProcesses("unshare -U sleep 54321") == 0 && hostProcesses("sleep 54321") == 0
	}, 10*time.Second, 10*time.Millisecond)
	require.DirExists(t, supervisorDir(cfg.StateDir, cfg.ID))
	require.NoError(t, Cleanup(t.Context(), cfg.StateDir, cfg.ID, cfg.RootfsDir, cfg.CgroupPath))
	requireGone(t, cfg)
}
