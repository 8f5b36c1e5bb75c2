package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestMetricsAreServedOnALoopbackAddressOnly(t *testing.T) {
	for _, tc := range []struct{ name, listen, err string }{
		{"not at all", "", ""},
		{"IPv4", "127.0.0.1:9464", ""},
		{"another address of the loopback network", "127.3.2.1:9464", ""},
		{"IPv6", "[::1]:9464", ""},
		{"all addresses", "0.0.0.0:9464", "must be a loopback address"},
		{"all addresses, IPv6", "[::]:9464", "must be a loopback address"},
		{"an address of the network", "192.0.2.1:9464", "must be a loopback address"},
		{"a zone", "[::1%lo]:9464", "must be a loopback address"},
		{"no address", ":9464", "must be an address and port"},
		{"a name", "localhost:9464", "must be an address and port"},
		{"no port", "127.0.0.1", "must be an address and port"},
		{"port 0", "127.0.0.1:0", "must be an address and port"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("[metrics]\nlisten = \"" + tc.listen + "\"\n")
			if tc.err == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.err)
			require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
		})
	}
}
