package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// follower is a polisctl that runs until it is interrupted.
type follower struct {
	d    *daemon
	cmd  *exec.Cmd
	done chan error
	mu   sync.Mutex
	out  bytes.Buffer
}

func (f *follower) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(p)
}

func (f *follower) text() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.String()
}

func (d *daemon) follow(args ...string) *follower {
	d.t.Helper()
	f := &follower{d: d, done: make(chan error, 1)}
	f.cmd = exec.Command(filepath.Join(d.bin, "polisctl"), args...)
	f.cmd.Env = append(os.Environ(), "POLIS_SOCKET="+d.path("run", "polisd.sock"))
	f.cmd.Dir, f.cmd.Stdout, f.cmd.Stderr = "/", f, f
	require.NoError(d.t, f.cmd.Start())
	go func() { f.done <- f.cmd.Wait() }()
	d.t.Cleanup(func() {
		select {
		case <-f.done:
		default:
			_ = f.cmd.Process.Kill()
			<-f.done
		}
	})
	return f
}

// ends interrupts it, and requires an end by the signal without an error message.
func (f *follower) ends(s syscall.Signal) {
	f.d.t.Helper()
	before := f.text()
	require.NoError(f.d.t, f.cmd.Process.Signal(s))
	select {
	case err := <-f.done:
		f.done <- err
	case <-time.After(patience):
		f.d.t.Fatal("it does not end")
	}
	require.Equal(f.d.t, 128+int(s), f.cmd.ProcessState.ExitCode(), f.text())
	// The command that it follows may have continued until the signal arrived.
	rest, ok := strings.CutPrefix(f.text(), before)
	require.True(f.d.t, ok, f.text())
	require.NotRegexp(f.d.t, `polisctl|interrupt|signal|cancel`, rest)
}

// TestFollowersContinueAcrossRestarts: every line of an agent's output and every event appears
// once, although polisd is killed, replaced and stopped for an upgrade, and the log is rotated.
func TestFollowersContinueAcrossRestarts(t *testing.T) {
	d := startDaemon(t, options{config: "[limits]\nlog_mb = 1\n"})
	d.up()
	d.worker("alice")
	// At most half of what a log keeps is written before the follower has it, however long a restart takes.
	const parts, lines = 6, 10_000
	d.must("agents", "run", "alice", fmt.Sprintf(`i=0; for part in $(seq %d); do while ! test -e /tmp/part$part; do sleep 0.05; done; n=0; `+
		`while test $n -lt %d; do echo "line $i of what alice has to say"; i=$((i+1)); n=$((n+1)); test $((i %% 2000)) -ne 0 || sleep 0.2; done; done; echo over`, parts, lines))
	part := 0
	write := func() {
		part++
		d.sh("alice", fmt.Sprintf("touch /tmp/part%d", part))
	}
	write()
	out := d.follow("agents", "watch", "-f", "-n", "100000", "alice")
	events := d.follow("events", "-f", "-q")
	agents := d.follow("agents", "list", "--watch", "--json")
	// A follower that has had no event reports that polisd does not answer, and ends.
	d.eventually("the first lines", func() bool {
		return strings.Contains(out.text(), "line 100 ") && strings.Contains(agents.text(), `"alice"`)
	})
	has := func() {
		d.eventually("the lines so far", func() bool { return strings.Contains(out.text(), fmt.Sprintf("line %d ", part*lines-1)) })
	}
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGUSR1} {
		has()
		write() // some of it while polisd is away
		_ = d.signal(s)
		time.Sleep(300 * time.Millisecond) // they have noticed, and got no answer
		d.start()
		time.Sleep(300 * time.Millisecond)
	}
	for part < parts {
		has()
		write()
	}
	d.add("bob")
	d.eventually("all of it", func() bool { return strings.HasSuffix(out.text(), "over\n") })
	next := 0
	for _, line := range strings.Split(out.text(), "\n") {
		if !strings.HasPrefix(line, "line ") {
			continue
		}
		require.Equal(t, fmt.Sprintf("line %d of what alice has to say", next), line)
		next++
	}
	require.Equal(t, parts*lines, next, "nothing is lost")
	require.NotContains(t, out.text(), "missing")
	d.eventually("the new agent is seen", func() bool { return strings.Contains(agents.text(), `"bob"`) })
	require.NotContains(t, agents.text(), "polisctl:")
	last, seen := 0, 0
	d.eventually("the events have continued", func() bool { return strings.Count(events.text(), "\n") > 5 })
	for _, line := range strings.Fields(events.text()) {
		var id int
		_, err := fmt.Sscan(line, &id)
		require.NoError(t, err, line)
		require.GreaterOrEqual(t, id, last, "events:missed has the number of the last one")
		last, seen = id, seen+1
	}
	require.Greater(t, seen, 5)
	out.ends(syscall.SIGINT)
	events.ends(syscall.SIGTERM)
	agents.ends(syscall.SIGINT)
}
