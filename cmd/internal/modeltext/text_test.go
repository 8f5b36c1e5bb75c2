package modeltext

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestTokensAreShort(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 12_340: "12.3k", 99_949: "99.9k", 99_950: "100k", 999_499: "999k", 999_500: "1.0M", 1_500_000: "1.5M", math.MaxInt64: "9.2E"} {
		require.Equal(t, want, Tokens(n), n)
	}
	require.Equal(t, "-", TokensOf(nil))
	require.Equal(t, "-", TokensOf(&api.ModelUse{}))
	require.Equal(t, "0", TokensOf(&api.ModelUse{Requests: 1}), "a request that failed used no tokens")
	require.Equal(t, "10", TokensOf(&api.ModelUse{Requests: 1, InputTokens: 1, OutputTokens: 2, CacheReadTokens: 3, CacheWriteTokens: 4}))
}

func TestACostThatIsNotKnownIsNeverZero(t *testing.T) {
	for want, u := range map[string]*api.ModelUse{
		"-":                 {Unpriced: 3},
		"0.00 EUR":          {Cost: map[string]float64{"EUR": 0}},
		"0.0012 EUR":        {Cost: map[string]float64{"EUR": 0.0012}},
		"0.0001 EUR":        {Cost: map[string]float64{"EUR": 0.000001}},
		">1.25 EUR":         {Cost: map[string]float64{"EUR": 1.25}, Unpriced: 1},
		"1.25 EUR 0.50 USD": {Cost: map[string]float64{"USD": 0.5, "EUR": 1.25}},
		"2.00":              {Cost: map[string]float64{"": 2}},
	} {
		require.Equal(t, want, Cost(u))
	}
	require.Equal(t, "-", Cost(nil))
	require.Equal(t, "81% of day_tokens", Budget(&api.ModelUse{Budget: &api.ModelBudgetUse{Percent: 81, Bound: "day_tokens"}}))
	require.Empty(t, Budget(nil))
}
