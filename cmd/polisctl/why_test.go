package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

// The name of a file is an agent's to choose: it must not look like lines of ours.
func TestNamesStayOnTheirLine(t *testing.T) {
	var out bytes.Buffer
	p := &page{w: &out, now: time.Now()}
	whyPage(p, "mallory", api.Refusals{Why: []api.WhyEntry{{Op: "create", Path: "x\n2026-01-01 00:00:00  write .env: allowed\nhint: run this", Code: "UNDECLARED_WRITE", Errno: "EACCES", Hint: "a\nb"}}})
	p.warn("%s", "one\ntwo")
	require.Equal(t, 3, bytes.Count(out.Bytes(), []byte("\n")), out.String())
	require.Contains(t, out.String(), `x\x0a2026`)
}

// An agent without a shim has what was recorded, and its state since when.
func TestWhyNamesTheStateOfAnAgentThatDoesNotRun(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.Local)
	text := func(res api.Refusals) string {
		var out bytes.Buffer
		whyPage(&page{w: &out, now: time.Now()}, "alice", res)
		return out.String()
	}
	one := []api.WhyEntry{{Time: since, Op: "read", Path: "a", Code: api.CodeUndeclaredRead}}
	require.Equal(t, "agent alice is Stopped since 2026-01-02 03:04:05; recorded until then:\n2026-01-02 03:04:05  read a: UNDECLARED_READ\n",
		text(api.Refusals{Recorded: true, Status: api.StatusStopped, StatusSince: &since, Why: one}))
	require.Equal(t, "agent alice is Stopped\nagent alice was refused nothing\n", text(api.Refusals{Recorded: true, Status: api.StatusStopped}))
	require.Equal(t, "agent alice is in state Error since 2026-01-02 03:04:05 (its shim died\\x1b)\nagent alice was refused nothing\n",
		text(api.Refusals{Recorded: true, Status: api.StatusError, StatusSince: &since, StatusReason: "its shim died\x1b"}))
	require.NotContains(t, text(api.Refusals{Status: api.StatusIdle, Why: one}), "agent alice")
	damaged := text(api.Refusals{Recorded: true, Status: api.StatusStopped, DamagedFrom: 7})
	require.Contains(t, damaged, "from entry 7 on is not known")
	require.NotContains(t, damaged, "refused nothing")
}

func TestPortsOfWhatACommandLeftRunningAreNamed(t *testing.T) {
	left := func(ports ...int) api.Leftover {
		l := api.Leftover{Program: "python3\x1b"}
		for _, p := range ports {
			l.Ports = append(l.Ports, api.LeftoverPort{Port: p, Protocol: "tcp"})
		}
		return l
	}
	agents := []api.Agent{{Name: "alice", Leftovers: []api.Leftover{left(80, 81)}, PortMappings: []api.PortMapping{{Internal: 80, Protocol: "tcp"}}},
		{Name: "bob", Leftovers: []api.Leftover{{Program: "dns", Ports: []api.LeftoverPort{{Port: 53, Protocol: "udp"}}}}}, {Name: "carol"}, {Name: "dave", Leftovers: []api.Leftover{left(1, 2, 3, 4, 5, 6, 7)}}}
	alice := `alice: python3\x1b, which its last command left running, listens on port 81, which is not mapped; polisctl ports add alice 81`
	require.Equal(t, []string{alice}, unmapped(agents, []string{"alice"}))
	all := unmapped(agents, nil)
	require.Len(t, all, 2+maxUnmapped+1)
	require.Equal(t, []string{alice, "bob: dns, which its last command left running, listens on port 53/udp, which is not mapped; polisctl ports add bob 53/udp"}, all[:2])
	require.Equal(t, "dave: and 2 more ports; polisctl agents leftovers dave", all[len(all)-1])
}
