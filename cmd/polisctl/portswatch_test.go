package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func (f *fake) setPorts(ports ...api.PortMapping) {
	f.mu.Lock()
	f.ports = ports
	f.mu.Unlock()
	f.events <- api.Event{ID: uint64(time.Now().UnixNano()), Type: api.EventPort, Agent: "claude"}
}

func portMap(agent, protocol string, internal, external int) api.PortMapping {
	return api.PortMapping{Agent: agent, Protocol: protocol, Internal: internal, External: external, Bind: "127.0.0.1", Served: true}
}

func TestPortsAreWatchedByEvents(t *testing.T) {
	f := newFake(t)
	b := startInBackground(t, f.socket, "ports", "list", "claude", "--watch", "--json")
	b.sees(`"change":"present"`)
	first := portMap("claude", "tcp", 3000, 3001)
	udp := portMap("claude", "udp", 3000, 3001)
	f.setPorts(first, udp, portMap("gemini", "tcp", 3000, 3002))
	b.sees(`"change":"added"`)
	first.External = 3003
	f.setPorts(first, udp)
	b.sees(`"change":"changed"`)
	f.setPorts(first)
	b.sees(`"change":"removed"`)
	b.ends(syscall.SIGTERM, 143)
	var got []string
	for _, line := range strings.Split(b.text(), "\n") {
		var ch portChange
		if json.Unmarshal([]byte(line), &ch) == nil && ch.Change != "" {
			require.NotZero(t, ch.Time)
			require.Equal(t, "claude", ch.Port.Agent)
			got = append(got, ch.Change+" "+innerPort(ch.Port)+" "+hostPort(ch.Port))
		}
	}
	require.Equal(t, []string{"present 3000 127.0.0.1:3001", "added 3000/udp 127.0.0.1:3001", "changed 3000 127.0.0.1:3003", "removed 3000/udp 127.0.0.1:3001"}, got)
}

func TestWatchedPortsAreLinesForPeople(t *testing.T) {
	f := newFake(t)
	b := startInBackground(t, f.socket, "ports", "list", "--watch")
	b.sees("present  claude 3000 at 127.0.0.1:3001\n")
	f.setPorts()
	b.sees("removed  claude 3000 at 127.0.0.1:3001\n")
	b.ends(syscall.SIGINT, 130)
}

func TestWatchedPortsAreRedrawnOnATerminal(t *testing.T) {
	f := newFake(t)
	c := startOnTerminal(t, f, "ports", "list", "--watch")
	c.sees("127.0.0.1:3001")
	f.setPorts(portMap("claude", "udp", 53, 3055))
	c.sees("127.0.0.1:3055")
	require.Contains(t, c.text(), "\x1b[H")
	c.types("\x03")
	require.Equal(t, 130, c.ends())
}
