package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnOlderShimHasNoModelsOfASharedBudget(t *testing.T) {
	m := Models{Models: []Model{{Name: "a"}}, Shared: &SharedBudget{Role: "team", Bounds: []string{"day_tokens"}}}
	got, err := m.Without(SharesVersion)
	require.NoError(t, err)
	require.Equal(t, m, got)
	got, err = m.Without(SharesVersion - 1)
	require.ErrorContains(t, err, "shared_budget")
	require.Empty(t, got.Models)
	require.Nil(t, got.Shared)
	require.Equal(t, int64(7), ShareUse{Tokens: 7, Micros: 8}.Of("day_tokens"))
	require.Equal(t, int64(8), ShareUse{Tokens: 7, Micros: 8}.Of("day_money"))
}
