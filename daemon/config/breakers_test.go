package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestBreakers(t *testing.T) {
	c, err := Parse("[breakers]\ndenials = 100\nnames = 9\n[roles.a.breakers]\ndeletions = 0\ndenials = 7\n[roles.b]\n")
	require.NoError(t, err)
	require.Equal(t, api.Breakers{Denials: 7, Names: 9}, c.BreakersOf("a"))
	require.Equal(t, api.Breakers{Denials: 100, Names: 9, Deletions: defaultDeletions}, c.BreakersOf("b"))
	require.Equal(t, c.BreakersOf("b"), c.BreakersOf(""))
	c, err = Parse("")
	require.NoError(t, err)
	require.Equal(t, api.Breakers{Deletions: defaultDeletions}, c.BreakersOf(""), "only deletions by default")
	for text, want := range map[string]string{
		"[breakers]\ndenials = -1\n":                 "breakers.denials = -1: must be 0, for off, or from 1 to 1000000",
		"[breakers]\nwritten_mb = 9999999\n":         "breakers.written_mb",
		"[roles.a.breakers]\nrepeats = 10001\n":      "roles.a.breakers.repeats = 10001",
		"[roles.a.breakers]\ndeletions_per_s = 10\n": "deletions_per_s",
	} {
		_, err := Parse(text)
		require.ErrorContains(t, err, want, text)
	}
}
