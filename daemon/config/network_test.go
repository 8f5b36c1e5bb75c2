package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestEgressIsReadAsAWordOrAList(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "open",
		"[network]\nbind = \"127.0.0.1\"": "open",
		"[network]\negress = \"none\"":    "none",
		"[network]\negress = [\"none\"]":  "none",
		"[network]\negress = []":          "none",
		"[network]\negress = \"X.org.\"":  "x.org",
		"[network]\negress = [\"*.x.org\", \"192.0.2.1\"]": "*.x.org,192.0.2.1",
	} {
		c, err := Parse(text)
		require.NoError(t, err, text)
		r, err := c.Reach("", BaseType{}, nil)
		require.NoError(t, err, text)
		require.Equal(t, want, r.Policy.String(), text)
	}
	for text, want := range map[string]string{
		"[network]\negress = 1":                             "must be \"open\"",
		"[network]\negress = [\"x.org\", 1]":                "must be \"open\"",
		"[network]\negress = \"https://x.org\"":             "network.egress",
		"[roles.a.network]\negress = [\"open\", \"x.org\"]": "roles.a.network.egress",
		"[roles.a.network]\nallow_private = [\"8.8.8.8\"]":  "roles.a.network.allow_private",
		"[network]\nallow_private = \"10.0.0.0/8\"":         "allow_private",
		"[network]\nresolv_conf = \"resolv.conf\"":          "network.resolv_conf",
		"[roles.a.network]\nports = \"3001-9999\"":          "roles.a.network.ports",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), text)
	}
}

func TestAnAgentsOwnEgressComesFirst(t *testing.T) {
	c, err := Parse(`
[network]
egress = ["a.org"]
allow_private = ["10.0.0.0/8"]
[roles.shut.network]
egress = "none"
[roles.wide.network]
egress = "open"
allow_private = []
[roles.same]
read = ["**"]
`)
	require.NoError(t, err)
	typ := BaseType{Name: "claude", Hosts: []string{"api.vendor.com", "*.vendor.net"}}
	for name, tc := range map[string]struct {
		role    string
		own     []string
		want    string
		private int
	}{
		"as configured, and what the type needs": {"", nil, "a.org,api.vendor.com,*.vendor.net", 1},
		"a role that says nothing":               {"same", nil, "a.org,api.vendor.com,*.vendor.net", 1},
		"a role that is no more":                 {"gone", nil, "a.org,api.vendor.com,*.vendor.net", 1},
		"nothing is nothing":                     {"shut", nil, "none", 1},
		"open needs no more":                     {"wide", nil, "open", 0},
		"its own":                                {"shut", []string{"b.org"}, "b.org,api.vendor.com,*.vendor.net", 1},
		"its own nothing":                        {"wide", []string{"none"}, "none", 0},
	} {
		r, err := c.Reach(tc.role, typ, tc.own)
		require.NoError(t, err, name)
		require.Equal(t, tc.want, r.Policy.String(), name)
		require.Len(t, r.Private, tc.private, name)
	}
	_, err = c.Reach("", typ, []string{"*"})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}
