package delegate

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/netbridge/egress"
)

func TestWhatAWorkerKeeps(t *testing.T) {
	was := Rights{MemoryMB: 128, Policy: api.Policy{Write: []string{"src/**"}, Read: []string{"docs/**"}, Deny: []string{"src/x"}}, Limits: api.Limits{Pids: 50, CPUWeight: 100},
		Egress: []string{"a.x.org", "10.0.0.0/8"}, HostPorts: []uint16{80, 5432}}
	for name, tc := range map[string]struct {
		parent Rights
		want   Rights
	}{
		"all of it": {Rights{MemoryMB: 512, Egress: []string{"open"}, HostPorts: []uint16{80, 5432}}, was},
		"less of everything": {
			Rights{MemoryMB: 64, Policy: api.Policy{Write: []string{"src/a/**"}, Deny: []string{"*.pem"}, Ask: []string{"src/a/q"}}, Limits: api.Limits{Pids: 20, CPUWeight: 10, DiskMB: 100}, Egress: []string{"*.x.org", "10.1.0.0/16"}, HostPorts: []uint16{80}},
			Rights{MemoryMB: 64, Policy: api.Policy{Write: []string{"src/a/**"}, Read: []string{"docs/**"}, Deny: []string{"*.pem", "src/x"}, Ask: []string{"src/a/q"}}, Limits: api.Limits{Pids: 20, CPUWeight: 10, DiskMB: 100}, Egress: []string{"a.x.org", "10.1.0.0/16"}, HostPorts: []uint16{80}},
		},
		"nothing in common": {
			Rights{MemoryMB: 128, Policy: api.Policy{Write: []string{"lib/**"}, Read: []string{"lib/**"}}, Egress: []string{"none"}},
			Rights{MemoryMB: 128, Policy: api.Policy{Write: []string{"lib/**"}, Read: []string{"lib/**"}, Deny: []string{"src/x", "**"}}, Limits: was.Limits, Egress: []string{"none"}, HostPorts: []uint16{}},
		},
		"a parent that only reads": {
			Rights{MemoryMB: 128, Policy: api.Policy{Read: []string{"**"}}, Egress: []string{"open"}, HostPorts: was.HostPorts},
			Rights{MemoryMB: 128, Policy: api.Policy{Read: []string{"src/**", "docs/**"}, Deny: []string{"src/x"}}, Limits: was.Limits, Egress: was.Egress, HostPorts: was.HostPorts},
		},
	} {
		require.Equal(t, tc.want, Keep(tc.parent, was), name)
	}
	require.Equal(t, api.Policy{Read: []string{"**"}}, keepRules(api.Policy{Write: []string{"a"}}, api.Policy{Write: []string{"b"}}), "both read everything, and write nothing in common")
}

// Whatever a parent's rights become, its worker has a part of them afterwards, and nothing that it
// had not before, but for the questions, which are the parent's.
func TestAWorkerNeverKeepsMoreThanItsParentHas(t *testing.T) {
	word := rapid.StringMatching(`/?(\*\*/|\*/)?[ab*?](/[ab]|/\*\*|/\*\.a|/\*|/a\*)?/?|\*\*|/\*\*|\*\.a`)
	rules := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 3).Draw(t, "back") == 0 {
			return "!" + word.Draw(t, "glob")
		}
		return word.Draw(t, "glob")
	}), 0, 3)
	hosts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x.org", "a.x.org", "*.x.org", "*.a.x.org", "b.a.x.org", "ask:x.org", "ask:*.a.x.org", "ask", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"}), 0, 3, rapid.ID[string])
	number := rapid.SampledFrom([]int{-1, 0, 16, 50, 100})
	path := rapid.StringMatching(`[ab](/[ab.]{1,3}){0,3}|[ab]/4913|[ab]/\.a\.swp|`)
	draw := func(t *rapid.T, what string) Rights {
		r := Rights{MemoryMB: rapid.IntRange(16, 128).Draw(t, what), Egress: hosts.Draw(t, "hosts"), HostPorts: rapid.SliceOfN(rapid.Uint16Range(1, 3), 0, 2).Draw(t, "ports"),
			Limits: api.Limits{Pids: number.Draw(t, "pids"), CPUPercent: number.Draw(t, "cpu"), DiskMB: number.Draw(t, "disk"), DiskFiles: number.Draw(t, "files"), Connections: number.Draw(t, "connections")},
			Policy: api.Policy{Read: rules.Draw(t, "read"), Write: rules.Draw(t, "write"), Ask: rules.Draw(t, "ask"), Deny: rules.Draw(t, "deny"), Hide: rules.Draw(t, "hide")}}
		if rapid.IntRange(0, 3).Draw(t, "open") == 0 {
			r.Egress = []string{egress.Open}
		}
		return r
	}
	rapid.Check(t, func(t *rapid.T) {
		parent, worker := draw(t, "parent"), draw(t, "worker")
		for _, r := range []Rights{parent, worker} {
			if _, err := compilePolicy(r.Policy); err != nil {
				t.Skip()
			}
		}
		got := Keep(parent, worker)
		part(t, "of the parent", parent, got, func() string { return path.Draw(t, "path") })
		worker.Policy.Ask = parent.Policy.Ask // the questions are the parent's
		if _, err := compilePolicy(worker.Policy); err != nil {
			return
		}
		// The root itself can be read as far as the parent can read it.
		part(t, "of its own", worker, got, func() string { return cmp.Or(path.Draw(t, "path"), "a") })
		if slices.ContainsFunc(slices.Concat(got.Policy.Read, got.Policy.Write), func(r string) bool { return strings.HasPrefix(r, "!") }) {
			return // which come last afterwards
		}
		part(t, "nothing is lost by the same again", Keep(parent, got), got, func() string { return path.Draw(t, "path") })
	})
}
