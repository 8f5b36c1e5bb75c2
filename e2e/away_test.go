package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// events returns the events of an agent.
func (d *daemon) events(agent string) []api.Event {
	d.t.Helper()
	var list struct{ Events []api.Event }
	require.NoError(d.t, json.Unmarshal([]byte(d.must("--json", "events")), &list))
	var out []api.Event
	for _, e := range list.Events {
		if e.Agent == agent {
			out = append(out, e)
		}
	}
	return out
}

// TestWhatHappensWhilePolisdIsAwayIsReportedAfter: a command that ends, a port that opens, one that
// closes, and refusals. A new branch needs a lease, which only polisd grants, so it is made when
// polisd is back. No event is published twice.
func TestWhatHappensWhilePolisdIsAwayIsReportedAfter(t *testing.T) {
	d := startDaemon(t, options{config: "[roles.docs]\nread = [\"**\"]\nwrite = [\"docs/**\"]\n[locks]\nwait = \"200ms\"\ngrace = \"2s\"\ndaemon_wait = \"2m\"\n"})
	d.up()
	// It prints while no polisd runs, and waits for a file before it begins.
	d.add("alice", "--role", "docs", "--", "sh", "-c", `
python3 -c 'import socket,time
s=socket.socket(); s.bind(("127.0.0.1",4100)); s.listen()
while True: time.sleep(9)' & old=$!
while ! test -e $HOME/go; do sleep 0.05; done
echo no > README.md
kill $old
setsid python3 -c 'import socket,time
s=socket.socket(); s.bind(("127.0.0.1",4200)); s.listen()
while True: time.sleep(9)' >/dev/null 2>&1 &
setsid git branch alice-made >/dev/null 2>&1 &
sleep 1; echo the end; touch $HOME/done; exit 7`)
	d.exec("alice", "sh", "-c", "echo earlier > main.txt")
	d.must("agents", "start", "--program", "alice")
	d.eventually("the first port", func() bool { return d.ports("alice")[4100].External != 0 })
	d.eventually("the refusal", func() bool { return refusals(d.events("alice")) == 1 })

	require.Error(t, d.signal(syscall.SIGKILL))
	require.NoError(t, os.WriteFile(d.home("alice", "go"), nil, 0o644))
	d.eventually("the command's end", func() bool { return len(glob(d.home("alice", "done"))) == 1 })
	time.Sleep(300 * time.Millisecond) // the command ends a moment after
	d.start()

	d.eventually("the exit code", func() bool {
		a, _ := d.agent("alice")
		return a.Status == api.StatusIdle && strings.Contains(a.StatusReason, "exit code 7")
	})
	d.eventually("the ports", func() bool {
		p := d.ports("alice")
		return p[4200].External != 0 && p[4200].Auto && p[4100].External == 0
	})
	d.eventually("the refusals", func() bool { return refusals(d.events("alice")) == 1 })
	require.Contains(t, d.must("agents", "watch", "alice"), "the end")
	d.eventually("the branch", func() bool { return d.exec("alice", "git", "rev-parse", "-q", "--verify", "alice-made").code == 0 })
	d.sh("alice", "git branch -D alice-made") // polis records it as alice's own

	// Once more without a change: no event is repeated.
	require.Error(t, d.signal(syscall.SIGKILL))
	d.start()
	time.Sleep(300 * time.Millisecond)
	require.Zero(t, refusals(d.events("alice")), "reported twice: %v", d.events("alice"))
}

// later prepares a shell script in an agent. The returned function runs it and waits for its end,
// also while polisd does not run.
func (d *daemon) later(agent, script string) func() result {
	d.t.Helper()
	d.scripts++
	name := fmt.Sprintf("script%d", d.scripts)
	done := make(chan result, 1)
	go func() {
		done <- d.exec(agent, "sh", "-c", "touch $HOME/"+name+".ready; while ! test -e $HOME/"+name+".go; do sleep 0.02; done\n"+script)
	}()
	d.eventually(name+" in "+agent, func() bool { return len(glob(d.home(agent, name+".ready"))) == 1 })
	return func() result {
		d.t.Helper()
		require.NoError(d.t, os.WriteFile(d.home(agent, name+".go"), nil, 0o644))
		return <-done
	}
}

func refusals(events []api.Event) int {
	n := 0
	for _, e := range events {
		if e.Type == api.EventDenied {
			n++
		}
	}
	return n
}

// TestAnAccessWaitsForPolisd: an access that needs a new lease waits for the configured time and
// then fails. A path that is leased already needs no polisd.
func TestAnAccessWaitsForPolisd(t *testing.T) {
	d := startDaemon(t, options{config: "[locks]\nwait = \"200ms\"\nhold = \"10m\"\ngrace = \"2s\"\ndaemon_wait = \"1s\"\nstale_timeout = \"20s\"\ndelegate = false\n"})
	d.up()
	d.add("alice")
	d.sh("alice", "echo mine > main.txt")
	held := d.later("alice", "echo more >> main.txt && cat main.txt")
	fresh := d.later("alice", "echo new > new.txt")
	require.Error(t, d.signal(syscall.SIGKILL))
	r := held()
	require.Equal(t, "mine\nmore\n", r.stdout, "%s", r)
	r = fresh()
	require.NotZero(t, r.code, "%s", r)
	require.Contains(t, r.stderr, "temporarily unavailable")
	require.Empty(t, glob(d.path("ws", ".polis", "worktrees", "alice", "new.txt")))
	d.start()
	d.sh("alice", "echo new > new.txt")
	d.heldBy("alice", "new.txt")
}
