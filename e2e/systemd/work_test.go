package systemd

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// work is an agent that is busy (package e2e/busy) while something is done to polis.
type work struct{ home string }

func startWork(t *testing.T) work {
	t.Helper()
	must(t, "install -D busy /opt/polis-e2e/busy && polisctl agents add worker --workspace ws --base custom --port 3700 -- /opt/polis-e2e/busy -listen 127.0.0.1:3700 -exit 7 && polisctl agents start --program worker")
	w := work{home: "/tmp/ws/.polis/homes/worker"}
	eventually(t, "the agent to work", func() bool { return len(glob("/tmp/ws/.polis/worktrees/worker/busy/new/*/*")) > 10 })
	return w
}

// finish ends the work and requires that not one of its calls failed, and that
// its exit code is known. It returns the longest wait for a new lease.
func (w work) finish(t *testing.T) (longest time.Duration) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(w.home, "stop"), nil, 0o644))
	report := filepath.Join(w.home, "report.json")
	eventually(t, "the report", func() bool { _, err := os.Stat(report); return err == nil })
	var r struct {
		Calls, Failed, New int
		Failures           []map[string]any
		Slow               []struct {
			Op         string
			Start, End time.Time
		}
	}
	require.NoError(t, json.Unmarshal([]byte(readFile(t, report)), &r))
	for _, f := range r.Failures {
		// New leases wait two seconds for a polisd that restarts, which takes longer when emulated.
		if err := fmt.Sprint(f["Err"]); slowMachine() && strings.Contains(strings.ToLower(err), "resource temporarily unavailable") {
			t.Log("failed, as polisd was away for long:", f)
			r.Failed--
		}
	}
	require.Zero(t, r.Failed, "%d of %d calls failed: %v", r.Failed, r.Calls, r.Failures)
	require.Positive(t, r.New)
	eventually(t, "the exit code", func() bool {
		return strings.Contains(must(t, "polisctl --json agents list"), "exit code 7")
	})
	must(t, "polisctl agents remove worker --force")
	for _, s := range r.Slow {
		if s.Op == "new" {
			longest = max(longest, s.End.Sub(s.Start))
		}
	}
	t.Logf("%d calls, the longest wait for a new lease %s", r.Calls, longest.Round(time.Millisecond))
	return longest
}

// upgrade puts the programs in place again and restarts polisd, as a package
// does, and lets polisd crash, while an agent works.
func upgrade(t *testing.T) {
	w := startWork(t)
	old := pid(t, "polis-agent@worker")
	for range 2 {
		must(t, "make -C tree install && systemctl daemon-reload && systemctl restart polisd")
		eventually(t, "polisd answers", func() bool { return answers(t) })
		require.Contains(t, must(t, "readlink /proc/"+property(t, "polis-agent@worker", "MainPID")+"/exe"), "(deleted)", "the shim continues as it was")
		must(t, "polisctl agents exec worker -- sh -c 'exec true'")
		before := pid(t, "polisd")
		require.NoError(t, syscall.Kill(before, syscall.SIGKILL))
		eventually(t, "systemd starts another polisd", func() bool {
			return pid(t, "polisd") != before && property(t, "polisd", "ActiveState") == "active"
		})
	}
	require.Equal(t, old, pid(t, "polis-agent@worker"))
	w.finish(t)
}
