package netbridge

import (
	"testing"

	"github.com/google/nftables"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"polis/netbridge/egress"
)

// addChains makes empty chains, and their table if it is missing.
func addChains(t *testing.T, table string, names ...string) {
	t.Helper()
	c, err := openTables()
	require.NoError(t, err)
	tb := c.AddTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: table})
	for _, name := range names {
		c.AddChain(&nftables.Chain{Table: tb, Name: name})
	}
	require.NoError(t, c.Flush())
}

func TestChainsOfAnEarlierVersionStayInForceUntilTheirShimIsReplaced(t *testing.T) {
	b := newBridge(t)
	inet := internet(t)
	holding(t, inet, "0.0.0.0:80")
	ep, err := b.Ensure(t.Context(), "claude")
	require.NoError(t, err)
	ns, err := OpenNS(ep.NetNS)
	require.NoError(t, err)
	defer ns.Close()
	g, _ := open(t, ep, nil, egress.Open)
	old := oldChainsOf(ep.Link)
	addChains(t, ep.Table, old.log, old.connlimit)
	listed := func() []string {
		c, err := openTables()
		require.NoError(t, err)
		chains, _, err := contents(c, &nftables.Table{Family: nftables.TableFamilyINet, Name: ep.Table})
		require.NoError(t, err)
		return chains
	}
	require.NoError(t, b.EnsureShared(t.Context()), "polisd starts again, the shim still runs")
	require.True(t, hasOldChains(listed(), ep.Link))

	// The older shim changes its limit, and logs refusals by its own chain.
	const most = 5
	r := &Refusals{Addr: ep.Addr, Log: testLog(t)}
	require.NoError(t, r.Open())
	logged := make(chan Refusal, 10)
	done := make(chan error, 1)
	go func() { done <- r.Run(t.Context(), func(r Refusal) { logged <- r }) }()
	c, err := openTables()
	require.NoError(t, err)
	kind := queueNative
	if g.fillChain(c, old.log, planLog(r.Queue, kind, nil)) != nil {
		kind = queueXT
		require.NoError(t, g.fillChain(c, old.log, planLog(r.Queue, kind, nil)))
	}
	require.NoError(t, g.fillChain(c, old.connlimit, planConnlimit(old.log, most)))
	_, err = connect(t, ns, "203.0.113.1:80", most)
	require.NoError(t, err)
	_, err = connect(t, ns, "203.0.113.1:80", 1)
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	require.True(t, (<-logged).OverLimit)
	_, err = dial(t, ns, ep.Gateway.String()+":80")
	require.ErrorIs(t, err, unix.ECONNREFUSED)
	require.False(t, (<-logged).OverLimit)
	require.NoError(t, r.Close())
	require.NoError(t, <-done)

	// A new shim in the same network leaves nothing in force of the older one.
	readRefusals(t, ep, func(Refusal) {})
	require.NoError(t, g.LimitConnections(100))
	_, err = connect(t, ns, "203.0.113.1:80", most)
	require.NoError(t, err)

	require.NoError(t, b.Remove(t.Context(), "claude"))
	require.False(t, hasOldChains(listed(), ep.Link))
}

func TestAGateFillsTheChainsOfAnEarlierVersionIfTheTableHasNoOthers(t *testing.T) {
	b := newBridge(t)
	table, link := b.Table()+"_old", "plv0123456789ab"
	old := oldChainsOf(link)
	addChains(t, table, old.log, old.connlimit)
	t.Cleanup(func() {
		c, err := openTables()
		require.NoError(t, err)
		c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: table})
		require.NoError(t, c.Flush())
	})
	g := Gate{Table: table, Link: link}
	require.NoError(t, g.LimitConnections(7))
	require.NoError(t, g.LogTo(1<<14))
	c, err := openTables()
	require.NoError(t, err)
	tb := &nftables.Table{Family: nftables.TableFamilyINet, Name: table}
	for name, want := range map[string]int{old.connlimit: len(planConnlimit(old.log, 7)), old.log: len(planLog(1<<14, queueNative, new(uint32)))} {
		rules, err := c.GetRules(tb, &nftables.Chain{Table: tb, Name: name})
		require.NoError(t, err)
		require.Len(t, rules, want, name)
	}
}
