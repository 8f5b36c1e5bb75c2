package fusectl_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/fusectl"
)

func TestAConnectionThatIsNotThereHasNoRequests(t *testing.T) {
	const id = 1<<20 - 1 // the last minor number
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("must be root in CI")
		}
		t.Skip("needs root")
	}
	m, err := fusectl.OpenMeter(id)
	require.NoError(t, err)
	n, err := m.Waiting()
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "twice")
	require.NoError(t, fusectl.Abort(id))
}
