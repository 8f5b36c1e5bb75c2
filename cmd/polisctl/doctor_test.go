package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestDoctorReportsWhatIsWrongAndWhatToDo(t *testing.T) {
	rep := api.DoctorReport{Checks: []api.Check{
		{Name: "kernel", State: api.CheckOK, Found: "Linux 6.18"},
		{Name: "FUSE passthrough", State: api.CheckWarn, Found: "refused", Cost: "data is slow", Fix: "use Linux 6.9"},
		{Name: "git", State: api.CheckFail, Found: "git version 2.30", Cost: "no merges", Fix: "install git 2.38"},
	}}
	require.Equal(t, api.CheckFail, rep.Worst())
	require.Equal(t, []string{"FUSE passthrough", "git"}, names(rep))
	var out bytes.Buffer
	doctorPage(&page{w: &out, now: time.Now()}, rep)
	require.Contains(t, out.String(), "warning   FUSE passthrough   refused")
	require.Contains(t, out.String(), "git: no merges\n  what to do: install git 2.38")
	require.NotContains(t, out.String(), "kernel:")

	// A long command is one command on a narrow terminal too.
	long := "sudo sysctl -w a.first=1 && printf '%s\\n' 'a.first = 1  2' | sudo tee /etc/sysctl.d/90-polis-with-a-long-name.conf && sudo systemctl restart polisd"
	out.Reset()
	doctorPage(&page{w: &out, now: time.Now(), width: 60}, api.DoctorReport{Checks: []api.Check{{Name: "x", State: api.CheckWarn, Command: long}}})
	_, printed, _ := strings.Cut(out.String(), "  command:    ")
	require.Contains(t, printed, " \\\n")
	joined := strings.ReplaceAll(strings.TrimSpace(printed), "\\\n", "")
	require.Equal(t, shellWords(long), shellWords(joined))
	require.NotContains(t, joined, "\n")
	rep.Checks = rep.Checks[:2]
	require.Equal(t, api.CheckWarn, rep.Worst())
	require.Equal(t, api.CheckOK, api.DoctorReport{}.Worst())
}
