package e2e

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestATaskCanBeGivenAsSoonAsTheLastHasEnded: a caller that knows that a task has ended, from its record or
// a run that waited, gives the next one and is not refused.
func TestATaskCanBeGivenAsSoonAsTheLastHasEnded(t *testing.T) {
	d := startDaemon(t, options{})
	d.up()
	d.worker("alice")
	for i := 1; i <= 20; i++ {
		script := "true"
		switch i % 4 {
		case 1:
			script = fmt.Sprintf("%secho %d > made; git add made; git commit -qm %d", ident, i, i)
		case 2:
			script = fmt.Sprint("echo ", i, " > uncommitted")
		case 3:
			script = "sleep 0.1; exit 3"
		}
		if i%5 == 0 {
			r := d.ctl("run", "--wait", "alice", script)
			require.NotContains(t, r.stderr, "is not possible now", "%s", r)
			continue
		}
		d.must("agents", "run", "alice", script)
		id, deadline := fmt.Sprint("alice.", i), time.Now().Add(time.Minute)
		for ended := false; !ended; {
			require.True(t, time.Now().Before(deadline), "task %s has not ended", id)
			var task api.Task
			require.NoError(t, json.Unmarshal([]byte(d.must("--json", "tasks", "show", id)), &task))
			ended = task.State == api.TaskEnded
		}
	}
}
