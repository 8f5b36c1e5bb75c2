package netbridge

import (
	"net/netip"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// TestAHeldPacketFollowsTheRulesOfItsRelease: it goes out if they have opened its destination, and
// is refused if not. What is dropped instead has no answer.
func TestAHeldPacketFollowsTheRulesOfItsRelease(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	moreInternet(t, inet, "203.0.113.7/32")
	listen(t, inet, "0.0.0.0:80", "web")
	ep, _ := ensure(t, b, "claude")
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	g, _ := open(t, ep, nil, "ask")
	held := make(chan Refusal, 16)
	r := &Refusals{Addr: ep.Addr, Log: testLog(t), Hold: func(what Refusal) bool { held <- what; return true }}
	require.NoError(t, r.Open())
	require.NoError(t, g.LogTo(r.Queue))
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context(), func(Refusal) {}) }()
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, <-done)
	})
	dialed := func(addr string) <-chan error {
		out := make(chan error, 1)
		go func() {
			_, err := dial(t, ns, addr)
			out <- err
		}()
		return out
	}
	next := func() Refusal {
		t.Helper()
		select {
		case what := <-held:
			return what
		case <-time.After(time.Minute):
			t.Fatal("no packet was held")
			return Refusal{}
		}
	}

	out := dialed("203.0.113.1:80")
	first := next()
	require.Equal(t, "203.0.113.1:80", first.Remote.String())
	_, found, err := ns.Owner(t.Context(), "tcp", first.Local, first.Remote)
	require.NoError(t, err)
	require.True(t, found, "the program waits for its connection")
	require.NoError(t, g.Allow(nil, map[netip.Addr]time.Duration{ip("203.0.113.1"): time.Minute}))
	require.NoError(t, r.Release(first.Packet, false))
	require.NoError(t, <-out)

	out = dialed("203.0.113.7:80")
	require.NoError(t, r.Release(next().Packet, false))
	require.ErrorIs(t, <-out, unix.ECONNREFUSED, "its destination is not open")

	out = dialed("203.0.113.7:80")
	require.NoError(t, r.Release(next().Packet, true))
	require.NoError(t, r.Release(next().Packet, false), "what was dropped is sent again")
	require.ErrorIs(t, <-out, unix.ECONNREFUSED)
}
