package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestInterruptAsksWhetherTheTaskIsStopped: once, and only a yes stops it.
func TestInterruptAsksWhetherTheTaskIsStopped(t *testing.T) {
	d := startDaemon(t, options{})
	writeType(d, "scribe", "run = [\"sh\", \"-ec\", \"{prompt}\"]\n")
	d.up()
	term := d.terminal("/")
	for id, c := range map[string]struct {
		key, says string
		state     api.TaskState
		code      string
	}{
		"no.1":    {"n\r", "task no.1 continues", api.TaskRunning, "ended=130\r"},
		"twice.1": {"\x03", "task twice.1 continues", api.TaskRunning, "ended=130\r"},
		"yes.1":   {"y\r", "cancelled", api.TaskEnded, "ended=1\r"},
	} {
		name := strings.TrimSuffix(id, ".1")
		term.types("polisctl run --base scribe --name " + name + " 'echo began; exec sleep 1000'; echo ended=$?\r")
		term.sees("\nbegan\r")
		term.types("\x03")
		term.sees("Stop task " + id + "?")
		term.types(c.key)
		term.sees(c.says)
		term.sees(c.code)
		require.Equal(t, c.state, d.taskOf(id).State, id)
	}
}

// TestInterruptAsksWhetherTheRaceIsCancelled: it continues unless the answer is yes; then the work of
// its agents is saved in the trash.
func TestInterruptAsksWhetherTheRaceIsCancelled(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	term := d.terminal("/")
	races := func() []api.Race {
		var all struct{ Races []api.Race }
		require.NoError(t, json.Unmarshal([]byte(d.must("--json", "races", "list")), &all))
		return all.Races
	}
	for i, c := range []struct {
		key, says string
		state     api.RaceState
		code      string
	}{
		{"n\r", "continues; polisctl races show ", api.RaceRunning, "ended=130\r"},
		{"\x03", "continues; polisctl races show ", api.RaceRunning, "ended=130\r"},
		{"y\r", "cancelled", api.RaceCancelled, "ended=1\r"},
	} {
		term.types("polisctl race 'echo work > w; exec sleep 1000' -n 1 -- sh -ec; echo ended=$?\r")
		d.eventually("the race began", func() bool { return len(races()) == i+1 })
		x := races()[i]
		d.eventually("its agent works", func() bool {
			_, err := os.Stat(filepath.Join(d.path("ws", ".polis", "worktrees"), x.Racers[0].Agent, "w"))
			return err == nil
		})
		term.types("\x03")
		term.sees("Cancel race " + x.ID + ", and save the work of its agents in the trash?")
		term.types(c.key)
		term.sees(c.says)
		term.sees(c.code)
		now := d.race(x.ID)
		require.Equal(t, c.state, now.State, c.key)
		require.Equal(t, c.state == api.RaceCancelled, now.Racers[0].Trash != "", c.key)
	}
}
