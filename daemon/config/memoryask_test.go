package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestMemoryThatIsAskedFor(t *testing.T) {
	d := Default()
	require.Equal(t, MemoryAsk{At: 90}, d.Limits.MemoryAsk, "no agent asks")
	c, err := Parse("[limits.memory_ask]\nstep_mb = 256\nmax_mb = 2048\n")
	require.NoError(t, err)
	require.Equal(t, MemoryAsk{At: 90, StepMB: 256, MaxMB: 2048}, c.Limits.MemoryAsk)
	for text, field := range map[string]string{
		"at = 49":                   "at",
		"at = 100":                  "at",
		"step_mb = 1\nmax_mb = 64":  "step_mb",
		"step_mb = -1\nmax_mb = 64": "step_mb",
		"step_mb = 64":              "max_mb",
		"step_mb = 64\nmax_mb = 1":  "max_mb",
		"max_mb = 64":               "max_mb",
	} {
		_, err := Parse("[limits.memory_ask]\n" + text)
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err), text)
		require.Contains(t, err.Error(), "limits.memory_ask."+field, text)
	}
}
