package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReceiptsAreBounded(t *testing.T) {
	c, err := Parse("[receipts]\nmax_mb = 1\nagent_mb = 2\nkeep = \"1h\"\naudit_on_full = \"deny\"\n")
	require.NoError(t, err)
	require.Equal(t, AuditDeny, c.Receipts.AuditOnFull)
	for _, text := range []string{"max_mb = 0", "agent_mb = 0", "agent_mb = 2000000", `keep = "1m"`, `audit_on_full = "wait"`} {
		_, err := Parse("[receipts]\n" + text + "\n")
		require.ErrorContains(t, err, "receipts.", text)
	}
	c, err = Parse("[roles.a]\naudit = \"full\"\n[roles.b]\n[agents.one]\naudit = \"standard\"\n[agents.two]\naudit = \"full\"\n")
	require.NoError(t, err)
	require.True(t, c.AuditsFully("other", "a"))
	require.False(t, c.AuditsFully("one", "a"))
	require.True(t, c.AuditsFully("two", "b"))
	require.False(t, c.AuditsFully("other", ""))
	for _, text := range []string{"[roles.a]\naudit = \"all\"\n", "[agents.a]\naudit = \"all\"\n"} {
		_, err := Parse(text)
		require.ErrorContains(t, err, "audit", text)
	}
}
