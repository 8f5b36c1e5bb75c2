package netbridge

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/netbridge/egress"
)

var update = flag.Bool("update", false, "write the golden files again")

func examplePlan(agents ...desiredAgent) desired {
	return desired{
		table: "polis", bridge: "polis0",
		subnet: netip.MustParsePrefix("10.213.4.0/22"), pool: DefaultPool(), agents: agents,
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".nft")
	if *update {
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), got)
}

func TestPlanMatchesGoldenText(t *testing.T) {
	a := desiredAgent{veth: "plv0123456789ab", addr: netip.MustParseAddr("10.213.4.2")}
	b := desiredAgent{veth: "plvba9876543210", addr: netip.MustParseAddr("10.213.7.254")}
	for name, d := range map[string]desired{
		"no-agents":  examplePlan(),
		"two-agents": examplePlan(a, b),
	} {
		t.Run(name, func(t *testing.T) {
			golden(t, name, plan(d).String())
		})
	}
	require.Equal(t, plan(examplePlan(a, b)).String(), plan(examplePlan(b, a)).String(), "order of agents must not matter")
}

func TestEgressMatchesGoldenText(t *testing.T) {
	for name, tc := range map[string]struct{ private, policy []string }{
		"open":                 {nil, []string{"open"}},
		"open-with-private":    {[]string{"10.1.0.0/16", "192.168.0.0/16"}, []string{"open"}},
		"none":                 {nil, []string{"none"}},
		"domains":              {nil, []string{"*.x.org", "api.y.com"}},
		"domains-and-networks": {[]string{"10.0.0.0/8"}, []string{"x.org", "10.1.0.0/16", "192.0.2.1"}},
		"asked-networks":       {nil, []string{"192.0.2.0/24", "ask:192.0.2.7", "ask"}},
		"networks":             {nil, []string{"192.0.2.0/24"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := egress.Parse(tc.policy)
			require.NoError(t, err)
			private, err := egress.ParsePrivate(tc.private)
			require.NoError(t, err)
			rs := ruleset{table: "polis", chains: []chain{{name: egressChain("plv0123456789ab"),
				rules: planEgress("plv0123456789ab", Egress{Policy: p, Private: private})}}}
			golden(t, "egress-"+name, rs.String())
		})
	}
}

func TestConnlimitMatchesGoldenText(t *testing.T) {
	golden(t, "connlimit", ruleset{table: "polis", chains: []chain{{name: chainsOf("plv0123456789ab").connlimit, rules: planConnlimit(chainsOf("plv0123456789ab").log, 4096)}}}.String())
	require.Empty(t, planConnlimit("log", 0))
}

// The text and the expressions of a rule are written side by side; nft reads the
// expressions back.
func TestKernelListsWhatThePlanSays(t *testing.T) {
	b := newBridge(t)
	policies, bounded := map[string]Egress{}, map[string]uint32{}
	for agent, entries := range map[string][]string{"claude": {"open"}, "gemini": {"*.x.org", "192.0.2.0/24", "198.18.0.1"}, "qwen": {"none"}} {
		ep, _ := ensure(t, b, agent)
		var g Gate
		g, policies[ep.Link] = open(t, ep, []string{"10.128.0.0/9"}, entries...)
		if agent != "qwen" {
			require.NoError(t, g.LimitConnections(1000))
			bounded[ep.Link] = 1000
		}
	}
	nft, err := exec.LookPath("nft")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs nft to read the rules back, and CI must not skip this")
		}
		t.Skip("needs nft to read the rules back")
	}
	out, err := exec.Command(nft, "list", "table", "inet", b.Table()).Output()
	require.NoError(t, err, string(out))

	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	s, err := scanLinks(h, b.Name())
	require.NoError(t, err)
	c := &change{Bridge: b, nl: h}
	d := desired{table: b.Table(), bridge: b.Name(), pool: DefaultPool()}
	d.subnet, _, err = c.subnet(s)
	require.NoError(t, err)
	for _, v := range s.veths {
		d.agents = append(d.agents, desiredAgent{veth: v.link.Attrs().Name, addr: v.alias.addr})
	}
	require.Len(t, d.agents, 3)
	want := plan(d)
	for i, ch := range want.chains {
		if veth, ok := strings.CutPrefix(ch.name, "egress_"); ok {
			want.chains[i].rules = planEgress(veth, policies[veth])
		}
		if veth, ok := strings.CutPrefix(ch.name, "connlimit_"); ok {
			want.chains[i].rules = planConnlimit(chainsOf(veth).log, bounded[veth])
		}
	}
	got := listedChains(string(out))
	// The log chains have a test of their own: nft cannot print the rules of
	// iptables in a table of this family.
	maps.DeleteFunc(got, func(name, _ string) bool { return strings.HasPrefix(name, "log_") })
	want.chains = slices.DeleteFunc(want.chains, func(c chain) bool { return strings.HasPrefix(c.name, "log_") })
	require.Equal(t, listedChains(want.String()), got)
}

// listedChains splits a listing, because nft prints base chains in the order in
// which they were hooked.
func listedChains(listing string) map[string]string {
	out := map[string]string{}
	var name string
	for line := range strings.Lines(listing) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "chain" {
			name = f[1]
		}
		if name != "" {
			out[name] += strings.TrimSpace(line) + "\n"
		}
		if strings.TrimSpace(line) == "}" {
			name = ""
		}
	}
	return out
}

func TestReplacingTheTableLeavesOthersAlone(t *testing.T) {
	b := newBridge(t)
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip("needs nft to make a table of its own")
	}
	run := func(args ...string) string {
		out, err := exec.Command(nft, args...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	run("add", "table", "inet", "other")
	t.Cleanup(func() { run("delete", "table", "inet", "other") })
	run("add", "chain", "inet", "other", "input", "{ type filter hook input priority 0; policy accept; }")
	run("add", "rule", "inet", "other", "input", "tcp", "dport", "22", "accept")
	before := run("-j", "list", "table", "inet", "other")
	require.NoError(t, b.EnsureShared(t.Context()))
	ensure(t, b, "claude")
	require.NoError(t, b.Remove(t.Context(), "claude"))
	require.JSONEq(t, before, run("-j", "list", "table", "inet", "other"))
	require.True(t, json.Valid([]byte(before)))
}

// The kernel answers each change of a transaction, and what does not fit into
// the socket's buffer is lost.
func TestRulesOfAThousandAgentsAreAppliedAtOnce(t *testing.T) {
	b := newBridge(t)
	d := examplePlan()
	d.table = b.Table()
	for i := range 1000 {
		d.agents = append(d.agents, desiredAgent{veth: fmt.Sprintf("plv%012x", i), addr: netip.AddrFrom4([4]byte{10, 213, byte(4 + i>>8), byte(i)})})
	}
	rs := plan(d)
	// There are no such links to filter at.
	rs.chains = slices.DeleteFunc(rs.chains, func(c chain) bool { return c.device != "" })
	for range 2 {
		c, err := openTables()
		require.NoError(t, err)
		require.NoError(t, rs.apply(c, ""))
	}
	require.NoError(t, b.EnsureShared(t.Context()), "and taken away")
}
