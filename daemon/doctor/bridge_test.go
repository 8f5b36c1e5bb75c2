package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/config"
	"polis/netbridge"
)

// TestTheFirewallIsToAcceptTheBridgeThatThereIs: a second instance has a bridge of another name.
func TestTheFirewallIsToAcceptTheBridgeThatThereIs(t *testing.T) {
	d := &Doctor{config: config.Default()}
	require.Contains(t, d.acceptBridge(), "interface polis0")
	d.config.RunDir = "/run/other"
	require.NotContains(t, d.acceptBridge(), "polis0")
	require.Contains(t, d.acceptBridge(), netbridge.BridgeName(d.config.Instance()))
}
