package e2e

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/daemon/api"
)

// TestAStoppedShimIsContinued: a host process that waits for it does not wait long, by /dev/fuse
// and by io_uring.
func TestAStoppedShimIsContinued(t *testing.T) {
	for _, box := range []string{"", "fuse_io_uring = true"} {
		d := startDaemon(t, options{box: box})
		d.up()
		a := d.add("alice")
		d.sh("alice", "echo x > x.txt")
		require.NoError(t, syscall.Kill(d.shim("alice"), syscall.SIGSTOP))
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		out, err := exec.CommandContext(ctx, "ls", a.WorktreePath).CombinedOutput()
		cancel()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "x.txt")
		require.Equal(t, "x\n", d.sh("alice", "cat x.txt"))
		require.Contains(t, d.must("events"), "agent:shim")
		a, _ = d.agent("alice")
		require.Equal(t, api.StatusIdle, a.Status, a.StatusReason)
	}
}

// A shim that was stopped while no polisd ran does not hold up the next one.
func TestAStoppedShimDoesNotHoldUpPolisd(t *testing.T) {
	for _, layers := range []string{"view", "auto"} {
		d := startDaemon(t, options{config: "[workspace]\nworktree = \"shared\"\nlayers = \"" + layers + "\"\n"})
		d.up()
		d.add("alice")
		d.sh("alice", "echo x > x.txt") // the kernel asks for the attributes of the directory again
		pid := d.shim("alice")
		require.Error(t, d.signal(syscall.SIGKILL))
		require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		d.start()
		require.Equal(t, pid, d.shim("alice"), "the same shim")
		require.Equal(t, "x\n", d.sh("alice", "cat x.txt"))
		a, _ := d.agent("alice")
		require.Equal(t, api.StatusIdle, a.Status, a.StatusReason)
	}
}

// TestAShimThatIsStoppedAgainAndAgainIsKilled and what waits for it gets an error, also what no
// signal reaches.
func TestAShimThatIsStoppedAgainAndAgainIsKilled(t *testing.T) {
	d := startDaemon(t, options{box: "fuse_io_uring = true"})
	d.up()
	a := d.add("alice")
	d.add("bob")
	d.sh("alice", "echo precious > x.txt")
	shim, err := unix.PidfdOpen(d.shim("alice"), 0) // its number can become another process's
	require.NoError(t, err)
	defer unix.Close(shim)
	stop := make(chan struct{})
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			_ = unix.PidfdSendSignal(shim, unix.SIGSTOP, nil, 0) //nolint:errcheck // it has ended
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	waits := exec.Command("stat", a.WorktreePath+"/nothing", a.WorktreePath+"/src/nothing")
	require.NoError(t, waits.Start())
	waited := make(chan error, 1)
	go func() { waited <- waits.Wait() }()
	d.eventually("the agent is in Error", func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusError && strings.Contains(a.StatusReason, "hung")
	})
	close(stop)
	<-stopped
	select {
	case err := <-waited:
		require.Error(t, err)
	case <-time.After(patience):
		t.Fatal("what waited for the shim waits on")
	}
	require.Equal(t, "one\ntwo\nthree\n", d.sh("bob", "cat main.txt"), "the others continue")
	d.must("agents", "start", "alice")
	require.Equal(t, "precious\n", d.sh("alice", "cat x.txt"))
	_, err = os.Stat(a.WorktreePath + "/x.txt")
	require.NoError(t, err)
}
