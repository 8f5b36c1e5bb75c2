package patrol

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// probed is what the kernel answers.
type probed struct {
	pid, connections   int
	stopErr, connError error
}

func (p probed) Stopped() (int, error)     { return p.pid, p.stopErr }
func (p probed) Connections() (int, error) { return p.connections, p.connError }

func TestWhatAnAgentWaitsFor(t *testing.T) {
	for name, c := range map[string]struct{ got, want Waits }{
		"nothing is reported":           {ReportedWaits(nil), Waits{}},
		"a question":                    {ReportedWaits(&api.Waiting{For: api.WaitingApproval, ID: "q1"}), Waits{For: "the answer to question q1"}},
		"a thaw":                        {ReportedWaits(&api.Waiting{For: api.WaitingThaw, What: "breaker"}), Waits{For: "a thaw: breaker"}},
		"a lease, as its shim says":     {ReportedWaits(&api.Waiting{For: api.WaitingLease, Path: "a.txt"}), Waits{For: `a lease on "a.txt"`}},
		"a lease":                       {LeaseWaits("a\nb"), Waits{For: `a lease on "a\nb"`}},
		"a debugger":                    {ProbedWaits(probed{pid: 7, connections: 2}), Waits{For: "process 7, which is stopped by a signal or a debugger"}},
		"connections":                   {ProbedWaits(probed{connections: 2}), Waits{Connections: 2}},
		"nothing":                       {ProbedWaits(probed{}), Waits{}},
		"its processes are not known":   {ProbedWaits(probed{stopErr: errors.New("no group")}), Waits{For: "something unknown: no group", Unknown: true}},
		"its connections are not known": {ProbedWaits(probed{connError: errors.New("no table")}), Waits{For: "something unknown: no table", Unknown: true}},
	} {
		require.Equal(t, c.want, c.got, name)
	}
}
