package netbridge

import (
	"encoding/json"
	"flag"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func examplePlan(agents ...desiredAgent) desired {
	return desired{
		table: "polis", bridge: "polis0",
		subnet: netip.MustParsePrefix("10.213.4.0/22"), pool: DefaultPool(), agents: agents,
	}
}

func TestPlanMatchesGoldenText(t *testing.T) {
	a := desiredAgent{"plv0123456789ab", netip.MustParseAddr("10.213.4.2")}
	b := desiredAgent{"plvba9876543210", netip.MustParseAddr("10.213.7.254")}
	for name, d := range map[string]desired{
		"no-agents":  examplePlan(),
		"two-agents": examplePlan(a, b),
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name+".nft")
			got := plan(d).String()
			if *update {
				require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			require.NoError(t, err)
			require.Equal(t, string(want), got)
		})
	}
	require.Equal(t, plan(examplePlan(a, b)).String(), plan(examplePlan(b, a)).String(), "order of agents must not matter")
}

// The text of a rule and what the kernel is told are written side by side; nft
// reads the kernel's side back.
func TestKernelListsWhatThePlanSays(t *testing.T) {
	b := newBridge(t)
	ensure(t, b, "claude")
	ensure(t, b, "gemini")
	nft, err := exec.LookPath("nft")
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("needs nft to read the rules back, and CI must not skip this")
		}
		t.Skip("needs nft to read the rules back")
	}
	out, err := exec.Command(nft, "list", "table", "inet", b.Table()).CombinedOutput()
	require.NoError(t, err, string(out))

	h, err := hostHandle()
	require.NoError(t, err)
	defer h.Close()
	s, err := scanLinks(h, b.Name())
	require.NoError(t, err)
	d := desired{table: b.Table(), bridge: b.Name(), pool: DefaultPool()}
	c := &change{Bridge: b, nl: h}
	d.subnet, _, err = c.subnet(s.bridge)
	require.NoError(t, err)
	for _, v := range s.veths {
		d.agents = append(d.agents, desiredAgent{v.link.Attrs().Name, v.alias.addr})
	}
	require.Len(t, d.agents, 2)
	require.Equal(t, chainsOf(plan(d).String()), chainsOf(string(out)))
}

// chainsOf splits a listing, because nft prints base chains in the order in
// which they were hooked.
func chainsOf(listing string) map[string]string {
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
	run("add", "table", "inet", "somebody")
	t.Cleanup(func() { run("delete", "table", "inet", "somebody") })
	run("add", "chain", "inet", "somebody", "input", "{ type filter hook input priority 0; policy accept; }")
	run("add", "rule", "inet", "somebody", "input", "tcp", "dport", "22", "accept")
	before := run("-j", "list", "table", "inet", "somebody")
	require.NoError(t, b.EnsureShared(t.Context()))
	ensure(t, b, "claude")
	require.NoError(t, b.Remove(t.Context(), "claude"))
	require.JSONEq(t, before, run("-j", "list", "table", "inet", "somebody"))
	require.True(t, json.Valid([]byte(before)))
}
