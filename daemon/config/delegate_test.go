package config

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDelegateIsChecked(t *testing.T) {
	c, err := Parse("[delegate]\nworkers = 0\ndepth = 3\nbase_type = \"claude\"\n")
	require.NoError(t, err)
	require.Equal(t, Delegate{Workers: 0, Depth: 3, BaseType: "claude"}, c.Delegate)
	for text, want := range map[string]string{
		"workers = -1":       "delegate.workers = -1: must be from 0 to 100",
		"workers = 101":      "delegate.workers = 101",
		"depth = 0":          "delegate.depth = 0: must be from 1 to 8",
		"depth = 9":          "delegate.depth = 9",
		`base_type = "A b"`:  `delegate.base_type = "A b"`,
		`base_type = "../x"`: `delegate.base_type = "../x"`,
	} {
		_, err := Parse("[delegate]\n" + text + "\n")
		require.ErrorContains(t, err, want)
	}
}
