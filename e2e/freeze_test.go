package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/api/wire"
	"polis/daemon/shim/dial"
)

// TestAFreezeOfThePatrolIsUndoneAfterACrash of polisd between freezing an agent and acting.
func TestAFreezeOfThePatrolIsUndoneAfterACrash(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol + "[roles.x.patrol]\non_stall = \"stop\"\n"})
	d.up()
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", "read line; echo $line > out.txt; exec sleep 1000")
	d.must("agents", "start", "--program", "quiet")
	d.write("failpoint", "patrol:frozen")
	d.eventually("polisd has died with the agent frozen", func() bool {
		d.ctl("patrol", "run", "--once")
		select {
		case err := <-d.done:
			d.done <- err
			return true
		default:
			return false
		}
	})
	d.start()
	require.Contains(t, d.log(), "left frozen by the patrol of an earlier polisd")
	d.eventually("the agent is thawed", func() bool {
		a, ok := d.agent("quiet")
		return ok && a.Status == api.StatusRunning && a.Waiting == nil
	})
	d.must("send", "quiet", "still here")
	a, _ := d.agent("quiet")
	d.eventually("its program continues", func() bool {
		text, err := os.ReadFile(filepath.Join(a.WorktreePath, "out.txt"))
		return err == nil && strings.TrimSpace(string(text)) == "still here"
	})
}

// TestThePatrolActsOnWhatIsFrozen: also if a process waits in the view. A stopped program gets its
// signal.
func TestThePatrolActsOnWhatIsFrozen(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[roles.x.patrol]\non_stall = \"stop\"\n"})
	d.up()
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", `trap 'echo saved > saved.txt; exit' TERM; echo > ready.txt; while :; do read line; done`)
	d.must("agents", "start", "--program", "quiet")
	f := d.finding("quiet")
	require.True(t, f.Done, "%+v", f)
	a, _ := d.agent("quiet")
	require.Equal(t, api.StatusStopped, a.Status)
	require.FileExists(t, filepath.Join(a.WorktreePath, "saved.txt"), "it was signalled before it continued, and thawed")
}

// TestChangesOfAFrozenAgentContinueAfterTheThaw: processes make and remove files all the time, and are
// frozen repeatedly in the middle of a call of the view. No call fails, and none waits after the
// thaw.
func TestChangesOfAFrozenAgentContinueAfterTheThaw(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.add("busy")
	a, _ := d.agent("busy")
	sh := dial.New(d.path("run", "agents", "busy", "shim.sock"))
	defer sh.Close()
	st, err := sh.Status(t.Context())
	require.NoError(t, err)
	changes := func() int64 {
		st, err := sh.Status(t.Context())
		require.NoError(t, err)
		return st.Counters.WriteCount
	}
	over := d.later("busy", `for w in 1 2 3 4; do (
	mkdir dir$w; n=0
	while [ ! -e stop ]; do n=$((n+1)); echo $n > dir$w/a && mv dir$w/a dir$w/b && rm dir$w/b || exit 1; done
	echo $n > done$w) & done; wait; ls done*`)
	work := make(chan result, 1)
	go func() { work <- over() }()
	d.eventually("they work", func() bool { return changes() > 100 })
	for range 20 {
		err := sh.Freeze(t.Context(), wire.FreezeRequest{Generation: st.Generation, By: api.FrozenByPatrol, Reason: "test", For: setting.Duration(30 * time.Second)})
		require.NoError(t, err)
		// The directories cannot be read: the kernel holds their locks for the waiting call.
		before := changes()
		time.Sleep(30 * time.Millisecond)
		require.LessOrEqual(t, changes()-before, int64(4), "each of them completes at most what it had begun")
		require.NoError(t, sh.Thaw(t.Context(), wire.ThawRequest{By: api.FrozenByPatrol}))
		time.Sleep(10 * time.Millisecond)
	}
	require.NoError(t, os.WriteFile(filepath.Join(a.WorktreePath, "stop"), nil, 0o666))
	select {
	case r := <-work:
		require.Equal(t, "done1\ndone2\ndone3\ndone4\n", r.stdout, r)
	case <-time.After(time.Minute):
		t.Fatal("they did not continue")
	}
}
