package policylearn

import (
	"fmt"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func below(domain string, n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("h%d.%s", i, domain))
	}
	return out
}

func TestEgress(t *testing.T) {
	for _, tc := range []struct {
		name  string
		names []string
		want  []string
		ok    bool
	}{
		{"no name", nil, []string{"none"}, true},
		{"names", []string{"b.org", "a.org", "A.org."}, []string{"a.org", "b.org"}, true},
		{"many names of a domain", append(below("cdn.example.org", 8), "example.org"), []string{"*.cdn.example.org", "example.org"}, true},
		{"many domains of different parties", below("co.uk", 9), below("co.uk", 9), true},
		{"no name that a list can have", []string{"a b"}, []string{"none"}, false},
		{"more than a list can have", below("com", 300), nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok := Egress(tc.names)
			require.Equal(t, tc.ok, ok)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestPropertyTheLearnedEgressAllowsTheNames(t *testing.T) {
	label := rapid.StringMatching(`[a-z][a-z0-9]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string {
			return label.Draw(t, "host") + "." + rapid.SampledFrom([]string{"a.org", "b.co.uk", "c.d.example.com", "com"}).Draw(t, "domain")
		}), 0, 60).Draw(t, "names")
		list, ok := Egress(names)
		require.True(t, ok)
		refused, err := CheckNames(list, names)
		require.NoError(t, err)
		require.Empty(t, refused, "%v", list)
	})
}

// TestPropertyTOMLHasTheValues, whatever they contain, and nothing else.
func TestPropertyTOMLHasTheValues(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\"]\n[other]\nx = [\"", "a\u202eb", "\x00\x7f\\", `"""`, "\r\n# x", "é"}))
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOf(text).Draw(t, "values")
		if values == nil {
			values = []string{}
		}
		out := TOML([]string{"a comment", text.Draw(t, "comment")}, Table{Name: "roles.x", Lists: []List{{"write", values}, {"read", nil}}})
		for _, r := range out {
			require.True(t, r == '\n' || r >= ' ' && r != 0x7f && r != 0x202e, "%q", out)
		}
		var got struct {
			Roles map[string]map[string][]string
		}
		md, err := toml.Decode(out, &got)
		require.NoError(t, err, out)
		require.Empty(t, md.Undecoded())
		require.Equal(t, map[string]map[string][]string{"x": {"write": values}}, got.Roles)
	})
}
