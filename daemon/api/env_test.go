package api

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestVariablesAreRefusedWithNameAndRule(t *testing.T) {
	require.NoError(t, CheckEnv(map[string]string{"A_KEY": "x", "LD_PRELOAD": "/x.so", "_": "", "lower": "1"}))
	many := map[string]string{}
	for i := range MaxEnv + 1 {
		many[fmt.Sprintf("V%d", i)] = "x"
	}
	big := map[string]string{}
	for i := range 5 {
		big[fmt.Sprintf("V%d", i)] = strings.Repeat("s", MaxEnvValue)
	}
	for want, env := range map[string]map[string]string{
		"at most 128":   many,
		"163860 bytes":  big,
		`"A-B"`:         {"A-B": "s3cret"},
		`"1A"`:          {"1A": "s3cret"},
		`""`:            {"": "s3cret"},
		"PATH is polis": {"PATH": "s3cret"},
		"POLIS_X is":    {"POLIS_X": "s3cret"},
		"HOME is":       {"HOME": "s3cret"},
		"A contains":    {"A": "s3cret\x00"},
		"32770 bytes":   {"A": "s3cret" + strings.Repeat("s", MaxEnvValue-4)},
	} {
		err := CheckEnv(env)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestNoErrorContainsAVariablesValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		env := rapid.MapOf(rapid.String(), rapid.Just("s3cret-value\x00")).Draw(t, "env")
		if err := CheckEnv(env); err != nil {
			require.NotContains(t, err.Error()+AsError(err).Hint, "s3cret-value")
		}
	})
}
