package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestAFreezeOfThePatrolIsUndoneAfterACrash of polisd between freezing an agent and acting.
func TestAFreezeOfThePatrolIsUndoneAfterACrash(t *testing.T) {
	d := startDaemon(t, options{failpoints: true, config: shortPatrol + "[roles.x.patrol]\non_stall = \"stop\"\n"})
	d.up()
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", "read line; echo $line > out.txt; exec sleep 1000")
	d.must("agents", "start", "quiet")
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
	d.eventually("its program goes on", func() bool {
		text, err := os.ReadFile(filepath.Join(a.WorktreePath, "out.txt"))
		return err == nil && strings.TrimSpace(string(text)) == "still here"
	})
}

// TestThePatrolActsOnWhatIsFrozen also if a process waits in the view, and a program that is stopped
// so gets its signal.
func TestThePatrolActsOnWhatIsFrozen(t *testing.T) {
	d := startDaemon(t, options{config: shortPatrol + "[roles.x.patrol]\non_stall = \"stop\"\n"})
	d.up()
	d.must("agents", "add", "quiet", "--base", "custom", "--write", "**", "--role", "x", "--", "sh", "-c", `trap 'echo saved > saved.txt; exit' TERM; echo > ready.txt; while :; do read line; done`)
	d.must("agents", "start", "quiet")
	f := d.finding("quiet")
	require.True(t, f.Done, "%+v", f)
	a, _ := d.agent("quiet")
	require.Equal(t, api.StatusStopped, a.Status)
	require.FileExists(t, filepath.Join(a.WorktreePath, "saved.txt"), "it was signalled before it went on, and thawed")
}
