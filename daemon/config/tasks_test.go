package config

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
)

func TestOnRestartIsOneOfThree(t *testing.T) {
	c := Default()
	require.Equal(t, api.OnRestartKeep, c.Tasks.OnRestart)
	for _, v := range []string{"keep", "retry", "ask"} {
		c.Tasks.OnRestart = v
		require.NoError(t, c.checkTasks())
	}
	for _, v := range []string{"", "Retry", "always"} {
		c.Tasks.OnRestart = v
		err := c.checkTasks()
		require.Equal(t, api.CodeInvalidConfig, api.CodeOf(err))
		require.ErrorContains(t, err, "tasks.on_restart")
	}
}
