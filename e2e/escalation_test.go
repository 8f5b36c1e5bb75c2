package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// TestACaseReachesAPerson by a command, which does not run as root, by a webhook and in the log. It
// does so once, also over a restart of polisd, and names the next step.
func TestACaseReachesAPerson(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "polis-e2e-escalation-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o777))
	posted := make(chan api.Event, 10)
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var ev api.Event
		if json.NewDecoder(r.Body).Decode(&ev) == nil {
			posted <- ev
		}
	}))
	defer srv.Close()
	script := fmt.Sprintf(`n=$(ls %[1]s | wc -l); { id -u; cat; } > %[1]s/.new; mv %[1]s/.new %[1]s/$n`, dir)
	d := startDaemon(t, options{config: shortPatrol + "[breakers]\ndenials = 20\n[patrol.escalation]\npause = \"0s\"\nwebhook = \"" + srv.URL + "/alerts\"\n" +
		fmt.Sprintf("command = [\"/bin/sh\", \"-c\", %q]\n", script)})
	d.up()
	d.must("agents", "add", "wild", "--base", "custom", "--write", "a/**", "--", "sh", "-c", "read go; while :; do echo > denied; done 2>/dev/null")
	d.must("agents", "start", "--program", "wild")
	d.must("send", "wild", "go")
	var cs []api.Case
	d.eventually("a case is open", func() bool { cs = d.openCases(); return len(cs) == 1 })

	var ev api.Event
	select {
	case ev = <-posted:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was posted")
	}
	require.Equal(t, []any{api.EventCase, "wild"}, []any{ev.Type, ev.Agent})
	require.Contains(t, ev.Message, cs[0].ID+": agent wild (breaker, pending): breaker denials")
	require.Contains(t, ev.Message, "polisctl patrol show "+cs[0].ID)
	d.eventually("the command ran", func() bool { _, err := os.Stat(dir + "/0"); return err == nil })
	uid, line, _ := strings.Cut(readFile(dir+"/0"), "\n")
	require.NotEqual(t, "0", uid)
	var got api.Event
	require.NoError(t, json.Unmarshal([]byte(line), &got))
	require.Equal(t, ev.Message, got.Message)
	d.eventually("it is counted", func() bool { return d.openCases()[0].Escalated == 1 })
	require.Contains(t, d.log(), "op=escalate agent=wild case="+cs[0].ID)

	require.NoError(t, d.signalRestart())
	d.must("patrol", "run", "--once")
	require.Equal(t, 1, d.openCases()[0].Escalated)
	require.Empty(t, posted, "a person is notified once an hour at most")
	require.NoFileExists(t, dir+"/1")
}
