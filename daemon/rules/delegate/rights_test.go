package delegate

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"polis/daemon/api"
	"polis/fusefs/policy"
	"polis/netbridge/egress"
)

func TestRulesOfAWorker(t *testing.T) {
	src := api.Policy{Write: []string{"src/**"}, Read: []string{"src/**", "docs/**"}}
	for name, tc := range map[string]struct {
		parent   api.Policy
		want     *api.Policy
		out      api.Policy
		code     api.Code
		contains string
	}{
		"no wish is the parent's rules":            {parent: src, out: src},
		"a part of the parent's":                   {parent: api.Policy{Write: []string{"src/**"}}, want: &api.Policy{Write: []string{"src/a/**"}}, out: api.Policy{Write: []string{"src/a/**"}}},
		"wider becomes the parent's":               {parent: api.Policy{Write: []string{"src/**", "docs/**"}}, want: &api.Policy{Write: []string{"**"}}, out: api.Policy{Write: []string{"src/**", "docs/**"}}},
		"outside is refused":                       {parent: api.Policy{Write: []string{"src/**"}}, want: &api.Policy{Write: []string{"docs/**"}}, code: api.CodeForbidden, contains: `"docs/**" does not lie in what the parent may write`},
		"a parent that only reads":                 {parent: api.Policy{Read: []string{"**"}}, want: &api.Policy{Write: []string{"a"}}, code: api.CodeForbidden},
		"what the parent excludes stays so":        {parent: api.Policy{Write: []string{"src/**", "!src/gen/**"}}, want: &api.Policy{Write: []string{"src/**"}}, out: api.Policy{Write: []string{"src/**", "!src/gen/**"}}},
		"a worker asks as its parent":              {parent: api.Policy{Ask: []string{"a"}}, out: api.Policy{Ask: []string{"a"}}},
		"a worker adds no questions":               {want: &api.Policy{Ask: []string{"a"}}, code: api.CodeForbidden},
		"denials of both":                          {parent: api.Policy{Deny: []string{"*.pem"}}, want: &api.Policy{Deny: []string{"b"}}, out: api.Policy{Deny: []string{"*.pem", "b"}}},
		"a worker negates nothing":                 {parent: api.Policy{Deny: []string{"s"}}, want: &api.Policy{Deny: []string{"!s"}}, code: api.CodeBadRequest, contains: "cannot begin with '!'"},
		"a worker keeps nothing to itself":         {want: &api.Policy{Exclusive: []string{"a"}}, code: api.CodeForbidden},
		"a free parent":                            {want: &api.Policy{Write: []string{"a"}}, out: api.Policy{Write: []string{"a"}}},
		"only write rules: reads what it did":      {parent: src, want: &api.Policy{Write: []string{"src/a"}}, out: api.Policy{Write: []string{"src/a"}, Read: []string{"src/**", "src/**", "docs/**"}}},
		"only read rules: writes nothing":          {parent: src, want: &api.Policy{Read: []string{"docs/**"}}, out: api.Policy{Read: []string{"docs/**"}}},
		"reads what the parent may write":          {parent: api.Policy{Write: []string{"src/**"}, Read: []string{"docs/**"}}, want: &api.Policy{Read: []string{"src/a"}}, out: api.Policy{Read: []string{"src/a"}}},
		"reads nothing else":                       {parent: src, want: &api.Policy{Read: []string{"secret"}}, code: api.CodeForbidden},
		"a rule that cannot be read is not a rule": {parent: src, want: &api.Policy{Write: []string{"a["}}, code: api.CodeBadRequest},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Rules(tc.parent, tc.want)
			if tc.code != "" {
				require.Equal(t, tc.code, api.CodeOf(err), "%v", err)
				require.ErrorContains(t, err, tc.contains)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.out.Read, nilIfNone(got.Read))
			require.Equal(t, tc.out.Write, nilIfNone(got.Write))
			require.Equal(t, tc.out.Ask, nilIfNone(got.Ask))
			require.Equal(t, tc.out.Deny, nilIfNone(got.Deny))
		})
	}
}

func nilIfNone(s []string) []string {
	if len(s) == 0 {
		return nil
	}
	return s
}

func TestLimitsOfAWorker(t *testing.T) {
	parent := Rights{MemoryMB: 512, Limits: api.Limits{Pids: 100, CPUWeight: 100, DiskMB: 1000}, Egress: []string{"*.x.org", "10.0.0.0/8"}, HostPorts: []uint16{5432}}
	for name, tc := range map[string]struct {
		want Want
		bad  string
	}{
		"as the parent":               {},
		"less memory":                 {want: Want{MemoryMB: 256}},
		"more memory":                 {want: Want{MemoryMB: 513}, bad: "memory_limit_mb"},
		"fewer processes":             {want: Want{Limits: api.Limits{Pids: 50}}},
		"more processes":              {want: Want{Limits: api.Limits{Pids: 101}}, bad: "pids"},
		"no limit where there is one": {want: Want{Limits: api.Limits{DiskMB: -1}}, bad: "disk_mb"},
		"a limit where there is none": {want: Want{Limits: api.Limits{Connections: 16}}},
		"a smaller weight":            {want: Want{Limits: api.Limits{CPUWeight: 10}}},
		"a greater weight":            {want: Want{Limits: api.Limits{CPUWeight: 101}}, bad: "cpu_weight"},
		"a weight of the default":     {want: Want{Limits: api.Limits{IOWeight: 1}}, bad: "io_weight"},
		"a name below":                {want: Want{Egress: []string{"a.x.org", "*.b.x.org", "10.1.0.0/16"}}},
		"nothing":                     {want: Want{Egress: []string{"none"}, HostPorts: []uint16{}}},
		"open":                        {want: Want{Egress: []string{"open"}}, bad: "egress = open"},
		"the name itself":             {want: Want{Egress: []string{"x.org"}}, bad: "egress = x.org"},
		"a greater network":           {want: Want{Egress: []string{"0.0.0.0/1"}}, bad: "egress = 0.0.0.0/1"},
		"another port":                {want: Want{HostPorts: []uint16{80}}, bad: "host_ports = 80"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Narrow(parent, tc.want)
			if tc.bad == "" {
				require.NoError(t, err)
				return
			}
			require.Equal(t, api.CodeForbidden, api.CodeOf(err))
			require.ErrorContains(t, err, tc.bad)
		})
	}
}

// rank orders verdicts by what they allow.
func rank(v policy.Verdict) int { return map[policy.Verdict]int{policy.Ask: 1, policy.Allow: 2}[v] }

// What a worker may do is a part of what its parent may do, over random nestings.
func TestAWorkerMayDoNothingThatItsParentMayNot(t *testing.T) {
	word := rapid.StringMatching(`/?(\*\*/|\*/)?[ab*?](/[ab]|/\*\*|/\*\.a|/\*|/a\*)?/?|\*\*|/\*\*|\*\.a`)
	globs := rapid.SliceOfN(word, 0, 3)
	back := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
		if rapid.IntRange(0, 3).Draw(t, "back") == 0 {
			return "!" + word.Draw(t, "glob")
		}
		return word.Draw(t, "glob")
	}), 0, 3)
	hosts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"x.org", "a.x.org", "*.x.org", "*.a.x.org", "b.a.x.org", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3"}), 0, 3, rapid.ID[string])
	number := rapid.SampledFrom([]int{-1, 0, 16, 50, 100})
	limits := rapid.Custom(func(t *rapid.T) api.Limits {
		return api.Limits{Pids: number.Draw(t, "pids"), CPUPercent: number.Draw(t, "cpu"), DiskMB: number.Draw(t, "disk"), DiskFiles: number.Draw(t, "files"), Connections: number.Draw(t, "connections")}
	})
	ports := rapid.SliceOfN(rapid.Uint16Range(1, 3), 0, 2)
	path := rapid.StringMatching(`[ab](/[ab.]{1,3}){0,3}|[ab]/4913|[ab]/\.a\.swp|`)
	made := 0
	rapid.Check(t, func(t *rapid.T) {
		has := Rights{MemoryMB: 100, Egress: hosts.Draw(t, "hosts"), HostPorts: ports.Draw(t, "ports"), Limits: limits.Draw(t, "limits"),
			Policy: api.Policy{Read: back.Draw(t, "read"), Write: back.Draw(t, "write"), Ask: back.Draw(t, "ask"), Deny: back.Draw(t, "deny"), Hide: back.Draw(t, "hide")}}
		if rapid.Bool().Draw(t, "open") {
			has.Egress = []string{egress.Open}
		}
		if _, err := compilePolicy(has.Policy); err != nil {
			t.Skip()
		}
		for depth := range rapid.IntRange(1, 4).Draw(t, "depth") {
			w := Want{MemoryMB: rapid.IntRange(0, 110).Draw(t, "memory")}
			if rapid.Bool().Draw(t, "rules") {
				w.Policy = &api.Policy{Read: globs.Draw(t, "read"), Write: globs.Draw(t, "write"), Deny: globs.Draw(t, "deny"), Hide: globs.Draw(t, "hide")}
			}
			if rapid.Bool().Draw(t, "limit") {
				w.Limits, w.Egress, w.HostPorts = limits.Draw(t, "limits"), hosts.Draw(t, "hosts"), ports.Draw(t, "ports")
			}
			got, err := Narrow(has, w)
			if err != nil {
				continue // refused, which allows nothing
			}
			made++
			part(t, fmt.Sprint("depth ", depth), has, got, func() string { return path.Draw(t, "path") })
			has = got
		}
	})
	require.Positive(t, made, "workers were made at all")
}

func compilePolicy(p api.Policy) (*policy.Set, error) {
	return policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
}

// part fails if child is no part of parent.
func part(t *rapid.T, where string, parent, child Rights, path func() string) {
	p, err := compilePolicy(parent.Policy)
	require.NoError(t, err)
	c, err := compilePolicy(child.Policy)
	require.NoError(t, err)
	for range 20 {
		at, dir := path(), rapid.Bool().Draw(t, "dir")
		dir = dir || at == ""
		for _, decide := range []func(s *policy.Set) policy.Decision{
			func(s *policy.Set) policy.Decision { return s.Decide(at, dir) },
			func(s *policy.Set) policy.Decision { return s.DecideThrough(at, dir) },
		} {
			a, b := decide(p), decide(c)
			require.LessOrEqual(t, rank(b.Read), rank(a.Read), "%s: read %q: %+v of %+v", where, at, child.Policy, parent.Policy)
			require.LessOrEqual(t, rank(b.Write), rank(a.Write), "%s: write %q: %+v of %+v", where, at, child.Policy, parent.Policy)
		}
		if c.AllWritable(at) {
			require.NotEqual(t, policy.Deny, p.Decide(at+"/a", false).Write, "%s: lock %q: %+v of %+v", where, at, child.Policy, parent.Policy)
		}
	}
	require.LessOrEqual(t, child.MemoryMB, parent.MemoryMB)
	for _, l := range [][2]int{{child.Limits.Pids, parent.Limits.Pids}, {child.Limits.CPUPercent, parent.Limits.CPUPercent}, {child.Limits.DiskMB, parent.Limits.DiskMB},
		{child.Limits.DiskFiles, parent.Limits.DiskFiles}, {child.Limits.Connections, parent.Limits.Connections}} {
		if l[1] > 0 {
			require.Positive(t, l[0], where)
			require.LessOrEqual(t, l[0], l[1], where)
		}
	}
	a, err := egress.Parse(parent.Egress)
	require.NoError(t, err)
	b, err := egress.Parse(child.Egress)
	require.NoError(t, err)
	for _, name := range []string{"x.org", "a.x.org", "b.a.x.org", "c.b.a.x.org", "org"} {
		require.False(t, b.Name(name) && !a.Name(name), "%s: %s: %v of %v", where, name, child.Egress, parent.Egress)
	}
	for _, addr := range []string{"10.1.2.3", "10.1.2.4", "10.2.0.1", "11.0.0.1"} {
		at := netip.MustParseAddr(addr)
		require.False(t, b.Addr(at) && !a.Addr(at), "%s: %s: %v of %v", where, addr, child.Egress, parent.Egress)
	}
	for _, port := range child.HostPorts {
		require.True(t, slices.Contains(parent.HostPorts, port), where)
	}
}
