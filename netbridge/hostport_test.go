package netbridge

import (
	"context"
	"io"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// hostService listens on a port of the host's 127.0.0.1 that the kernel chooses
// and answers every connection with text.
func hostService(t *testing.T, text string) uint16 {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, text) // the client's test fails if it does not arrive
			_ = c.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func readFrom(t *testing.T, ns *NS, addr netip.AddrPort) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	c, err := ns.Dial(ctx, "tcp", addr.String())
	if err != nil {
		return "", err
	}
	defer c.Close()
	require.NoError(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	got, err := io.ReadAll(c)
	return string(got), err
}

func TestHostPortLeadsToTheHostsLoopbackAndNoFurther(t *testing.T) {
	b := newBridge(t)
	ep, ns := ensure(t, b, "claude")
	_, other := ensure(t, b, "codex")
	port, closed := hostService(t, "the host's"), hostService(t, "not opened")
	loop := func(p uint16) netip.AddrPort { return netip.AddrPortFrom(loopback(), p) }
	_, err := readFrom(t, ns, loop(port))
	require.ErrorIs(t, err, unix.ECONNREFUSED, "control: nothing leads there before")

	seen := make(chan netip.AddrPort, 8)
	h := &HostPort{NS: ns, Port: port, Connected: func(from netip.AddrPort, err error) {
		assert.NoError(t, err)
		seen <- from
	}}
	require.NoError(t, h.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	got, err := readFrom(t, ns, loop(port))
	require.NoError(t, err)
	require.Equal(t, "the host's", got)
	require.Equal(t, loopback(), (<-seen).Addr())
	require.Empty(t, seen)

	_, err = readFrom(t, ns, loop(closed))
	require.ErrorIs(t, err, unix.ECONNREFUSED, "another port of the host")
	_, err = readFrom(t, other, loop(port))
	require.ErrorIs(t, err, unix.ECONNREFUSED, "another agent")
	_, err = readFrom(t, ns, netip.AddrPortFrom(ep.Gateway, port))
	require.Error(t, err, "the host's other address")
	_, err = readFrom(t, other, netip.AddrPortFrom(ep.Addr, port))
	require.Error(t, err, "another agent, by the address of the one that has it")

	require.NoError(t, h.Close())
	_, err = readFrom(t, ns, loop(port))
	require.ErrorIs(t, err, unix.ECONNREFUSED, "closed")
}

func TestHostPortWithoutAServiceResets(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	require.NoError(t, l.Close())
	failed := make(chan error, 1)
	h := &HostPort{NS: ns, Port: port, Connected: func(_ netip.AddrPort, err error) { failed <- err }}
	require.NoError(t, h.Open(t.Context()))
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	_, err = readFrom(t, ns, netip.AddrPortFrom(loopback(), port))
	require.ErrorIs(t, err, unix.ECONNRESET)
	require.ErrorIs(t, <-failed, unix.ECONNREFUSED)
}

func TestHostPortTakenByTheAgentIsRefused(t *testing.T) {
	b := newBridge(t)
	_, ns := ensure(t, b, "claude")
	listen(t, ns, "127.0.0.1:4000", "the agent's own")
	h := &HostPort{NS: ns, Port: 4000}
	require.ErrorIs(t, h.Open(t.Context()), ErrPortInUse)
	require.NoError(t, h.Close())
	require.ErrorIs(t, (&HostPort{NS: ns}).Open(t.Context()), ErrPortRange)
}
