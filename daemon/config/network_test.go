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
		r, err := c.Reach("", BaseType{}, Own{})
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
		"[network]\nhost_ports = [0]":                       "network.host_ports: port 0",
		"[roles.a.network]\nhost_ports = [65536]":           "host_ports",
		"[network]\nhost_ports = \"80\"":                    "host_ports",
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
		r, err := c.Reach(tc.role, typ, Own{Egress: tc.own})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, r.Policy.String(), name)
		require.Len(t, r.Private, tc.private, name)
	}
	_, err = c.Reach("", typ, Own{Egress: []string{"*"}})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}

func TestHostPortsOfAnAgentReplaceThoseOfItsRoleAndOfAll(t *testing.T) {
	c, err := Parse("[network]\nhost_ports = [80, 11434, 80]\n[roles.a.network]\nhost_ports = [5432]\n[roles.none.network]\nhost_ports = []\n[roles.usual.network]\negress = \"none\"\n")
	require.NoError(t, err)
	for name, tc := range map[string]struct {
		role string
		own  []uint16
		want []uint16
	}{
		"as configured, in order, each once": {"", nil, []uint16{80, 11434}},
		"a role that says nothing":           {"usual", nil, []uint16{80, 11434}},
		"a role's":                           {"a", nil, []uint16{5432}},
		"a role's none":                      {"none", nil, nil},
		"its own":                            {"a", []uint16{22}, []uint16{22}},
		"its own none":                       {"a", []uint16{}, nil},
	} {
		r, err := c.Reach(tc.role, BaseType{}, Own{HostPorts: tc.own})
		require.NoError(t, err, name)
		require.Equal(t, tc.want, r.HostPorts, name)
	}
	many := make([]uint16, maxHostPorts+1)
	for i := range many {
		many[i] = uint16(i + 1)
	}
	_, err = c.Reach("", BaseType{}, Own{HostPorts: many})
	require.ErrorContains(t, err, "at most 64")
	_, err = c.Reach("", BaseType{}, Own{HostPorts: []uint16{0}})
	require.Equal(t, api.CodeBadRequest, api.CodeOf(err))
}
