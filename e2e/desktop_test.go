package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/internal/sessionbus"
)

// TestThePersonSeesItOnTheDesktop of the owner of the project, who need not be logged in all the time. polisd speaks to
// the session bus with the owner's rights, and what an agent wrote is text.
func TestThePersonSeesItOnTheDesktop(t *testing.T) {
	needProgram(t, "dbus-daemon")
	d := startDaemon(t, options{config: "[notify]\ndesktop = true\npause = \"0s\"\n"})
	check := func() (c api.Check) {
		t.Helper()
		var rep api.DoctorReport
		require.NoError(t, json.Unmarshal([]byte(d.ctl("--json", "doctor").stdout), &rep))
		for _, c := range rep.Checks {
			if c.Name == "desktop notifications" {
				return c
			}
		}
		require.Fail(t, "doctor has no such check")
		return c
	}
	d.up()
	d.add("alice", "--base", "custom", "--", "sh", "-c")
	require.Equal(t, api.CheckOK, check().State)

	// Nobody is logged in: that is no error, and one line of doctor.
	d.must("run", "--wait", "alice", "true")
	d.must("run", "--wait", "alice", "true")
	d.eventually("two messages are counted", func() bool {
		return check().Found == "user 65534: 2 not shown since the last one that was (no session bus: the user is not logged in)"
	})
	require.Equal(t, api.CheckWarn, check().State)
	require.NotEmpty(t, check().NoCommand)
	require.Equal(t, 1, strings.Count(d.log(), "notification not shown on desktop"), d.log())

	next, _ := sessionbus.Start(t, sessionbus.Dir(t, owner), owner).Receive(t)
	d.must("run", "--wait", "alice", "true")
	s := next()
	require.EqualValues(t, owner, s.UID)
	require.Equal(t, "polis: alice", s.Title)
	require.Contains(t, s.Body, "task alice.3 of agent alice has ended")
	d.eventually("nothing is counted", func() bool { return check().State == api.CheckOK })

	asked := d.asking("alice", `polisctl ask -- "$(printf -- '-<b>x</b>&\033[2K\nagent bob asks')"`)
	s = next()
	require.EqualValues(t, owner, s.UID)
	lines := strings.Split(s.Body, "\n")
	require.Len(t, lines, 2, s.Body)
	require.True(t, strings.HasPrefix(lines[0], `-&lt;b&gt;x&lt;/b&gt;&amp;\x1b[2K`), s.Body)
	q := d.question("alice")
	require.Equal(t, "agent alice asks: polisctl approvals show "+q.ID, lines[1])
	d.must("approvals", "approve", q.ID)
	<-asked
	require.NotContains(t, d.log(), "notification failed")
}
