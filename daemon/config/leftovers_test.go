package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestARoleDecidesWhatIsDoneAboutLeftovers(t *testing.T) {
	c, err := Parse("[roles.a]\nleftovers = \"end\"\n[roles.b]\n")
	require.NoError(t, err)
	require.Equal(t, api.LeftoversEnd, c.Leftovers("a", ""))
	require.Equal(t, api.LeftoversAsk, c.Leftovers("a", api.LeftoversAsk))
	require.Equal(t, api.LeftoversKeep, c.Leftovers("b", ""))
	require.Equal(t, api.LeftoversKeep, c.Leftovers("", ""))
	_, err = Parse("[roles.a]\nleftovers = \"kill\"\n")
	require.ErrorContains(t, err, `roles.a.leftovers = "kill": must be "keep", "end" or "ask"`)
}
