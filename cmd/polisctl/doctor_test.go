package main

import (
	"bytes"
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
	rep.Checks = rep.Checks[:2]
	require.Equal(t, api.CheckWarn, rep.Worst())
	require.Equal(t, api.CheckOK, api.DoctorReport{}.Worst())
}
