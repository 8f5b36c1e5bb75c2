package fusectl_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/fusefs/fusectl"
	"polis/internal/need"
)

func TestAConnectionThatIsNotThereHasNoRequests(t *testing.T) {
	const id = 1<<20 - 1 // the last minor number
	need.Root(t)
	m, err := fusectl.OpenMeter(id)
	require.NoError(t, err)
	n, err := m.Waiting()
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, m.Close())
	require.NoError(t, m.Close(), "twice")
	require.NoError(t, fusectl.Abort(id))
}
