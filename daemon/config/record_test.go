package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestARoleOrAnAgentRecordsItsPolicy(t *testing.T) {
	c, err := Parse("[roles.a]\npolicy = \"record\"\nwrite = [\"src/**\"]\n[roles.b]\n[agents.one]\npolicy = \"enforce\"\n[agents.two]\npolicy = \"record\"\n")
	require.NoError(t, err)
	for _, tc := range []struct {
		agent, role string
		want        bool
	}{{"other", "a", true}, {"one", "a", false}, {"two", "b", true}, {"two", "", true}, {"other", "b", false}, {"other", "", false}} {
		require.Equal(t, tc.want, c.RecordsPolicy(tc.agent, tc.role), "%s of role %s", tc.agent, tc.role)
	}
	for _, text := range []string{"[roles.a]\npolicy = \"permissive\"\n", "[agents.a]\npolicy = \"off\"\n"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, ".policy", text)
	}
}
