package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// TestADaemonThatIsStoppedWhileItStartsEnds: at whatever time after exec the signals arrive, polisd
// ends, its run directory is free, and nothing of polisd or its agents remains.
func TestADaemonThatIsStoppedWhileItStartsEnds(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("alice")
	d.sh("alice", "echo kept > kept.txt")
	d.stop()
	caught := 0
	for i := range 31 {
		delay := time.Duration(i) * 5 * time.Millisecond
		signals := []syscall.Signal{syscall.SIGTERM}
		if i%3 == 2 {
			signals = []syscall.Signal{syscall.SIGUSR1, syscall.SIGTERM}
		}
		if d.startAndEnd(delay, signals...) {
			caught++
		}
		require.Empty(t, d.mounts(), "after %v", delay)
		require.Zero(t, d.living(), "after %v", delay)
		require.Empty(t, glob(d.path("run", "netns", "*")), "after %v", delay)
		require.True(t, free(t, d.path("run", "polisd.lock")), "after %v", delay)
	}
	require.Positive(t, caught, "no signal came while polisd was there to catch it")
	// USR1 leaves agents alone. There are none yet, and polisd makes none.
	d.startAndEnd(60*time.Millisecond, syscall.SIGUSR1)
	require.Empty(t, d.mounts())

	d.start()
	a, there := d.agent("alice")
	require.True(t, there)
	require.Equal(t, api.StatusIdle, a.Status, "it comes back as if nothing had been: %s", a.StatusReason)
	require.Equal(t, "kept\n", d.sh("alice", "cat kept.txt"))
	// TERM during the start stops running agents, and USR1 leaves them alone.
	require.NoError(t, d.signal(syscall.SIGUSR1))
	require.Equal(t, 1, d.living())
	if d.startAndEnd(70*time.Millisecond, syscall.SIGUSR1); d.living() == 0 {
		t.Error("USR1 during the start ended an agent")
	}
	if d.startAndEnd(70*time.Millisecond, syscall.SIGTERM) {
		require.Zero(t, d.living(), "TERM during the start ends the agents")
		require.Empty(t, d.mounts())
	}
}

// startAndEnd runs polisd, sends it the signals delay after exec, and waits for its end. It reports
// whether polisd shut down in order. If not, the signal arrived before polisd handled signals.
func (d *daemon) startAndEnd(delay time.Duration, signals ...syscall.Signal) bool {
	d.t.Helper()
	log, err := os.OpenFile(d.path("polisd.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(d.t, err)
	defer log.Close()
	cmd := exec.Command(filepath.Join(d.bin, "polisd"), "--config", d.path("polisd.toml"))
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(d.t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	if !slices.Contains(signals, syscall.SIGTERM) {
		// TERM ends a program that does not handle it yet; the Go runtime ignores USR1 until it has started.
		// Before polisd takes its lock it handles both.
		d.eventually("polisd has its lock", func() bool { return !free(d.t, d.path("run", "polisd.lock")) })
	}
	time.Sleep(delay) // the moment is what is tested; no result depends on it
	for _, s := range signals {
		_ = cmd.Process.Signal(s) //nolint:errcheck // it may have ended by the first one
	}
	select {
	case err := <-done:
		if cmd.ProcessState.Sys().(syscall.WaitStatus).Signaled() {
			return false
		}
		require.NoError(d.t, err, "signals %v after %v\n%s", signals, delay, d.log())
		return true
	case <-time.After(patience):
		_ = cmd.Process.Kill() //nolint:errcheck // the test fails anyway
		<-done
		d.t.Fatalf("polisd does not end: signals %v after %v", signals, delay)
		return false
	}
}

// TestSignalsAreHandledBeforeAnythingElseStarts: polisd handles them while the Go packages that it consists of are
// initialised, before the first one of its own.
func TestSignalsAreHandledBeforeAnythingElseStarts(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin(t), "polisd"), "-version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	var own []string
	for line := range strings.Lines(string(out)) {
		if rest, ok := strings.CutPrefix(line, "init polis/"); ok {
			own = append(own, strings.Fields(rest)[0])
		}
	}
	require.Greater(t, len(own), 10, "%s", out)
	require.Equal(t, "cmd/polisd/signals", own[0])
}

// free reports whether no process holds the lock file.
func free(t testing.TB, path string) bool {
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		return true
	}
	require.NoError(t, err)
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}
