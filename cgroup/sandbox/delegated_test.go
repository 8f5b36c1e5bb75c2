//go:build seccomp

package sandbox

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/cgroup"
)

// Run it as a unit with Delegate=yes: it steps aside in its own group, which is
// no thing to do to a shell's. With POLIS_TEST_DELEGATED=1 the caller says so.
func TestSandboxBelowADelegatedUnit(t *testing.T) {
	if os.Getenv("POLIS_TEST_DELEGATED") == "" {
		t.Skip("not in a delegated unit")
	}
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
