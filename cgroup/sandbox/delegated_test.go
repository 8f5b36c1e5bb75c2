//go:build seccomp && delegated

package sandbox

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/cgroup"
)

// TestSandboxBelowADelegatedUnit moves its own process into a group below its
// own, so it has to run as a unit with Delegate=yes: e2e/systemd builds it with
// the tag "delegated" and does that.
func TestSandboxBelowADelegatedUnit(t *testing.T) {
	cfg := testConfig(t)
	host, err := cgroup.Detect()
	require.NoError(t, err)
	base, err := host.Own()
	require.NoError(t, err)
	leaf, err := host.EnterLeaf(base, "supervisor")
	require.NoError(t, err)
	own, err := host.Own()
	require.NoError(t, err)
	require.Equal(t, leaf, own)
	cfg.CgroupPath, err = cgroup.Sub(base, "sandbox")
	require.NoError(t, err)
	s := create(t, cfg)
	require.Equal(t, "ok", sh(t, s, "echo ok"))
	st, err := s.Stats()
	require.NoError(t, err)
	require.EqualValues(t, cfg.Limits.MemoryBytes, st.MemoryLimit)
	names, err := host.List(base)
	require.NoError(t, err)
	require.Contains(t, names, "sandbox")
}
