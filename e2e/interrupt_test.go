package e2e

import (
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
		"no.1":    {"n\r", "task no.1 goes on", api.TaskRunning, "ended=130\r"},
		"twice.1": {"\x03", "task twice.1 goes on", api.TaskRunning, "ended=130\r"},
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
