package doctor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"polis/daemon/api"
	"polis/daemon/config"
)

func TestRoomForAgentsIsWhatAdmissionLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*config.Config)
		memory int64 // in MB
		state  api.CheckState
		found  string
	}{
		"enough":                          {func(*config.Config) {}, 8 << 10, api.CheckOK, "60 of 512 MB each"},
		"fewer than max_agents":           {func(c *config.Config) { c.Admission.Overcommit = 1 }, 2 << 10, api.CheckWarn, "3 of 512 MB each"},
		"none, on a small machine":        {func(*config.Config) {}, 256, api.CheckWarn, "0 of 512 MB each"},
		"all agents have a limit":         {func(c *config.Config) { c.Limits.Total.MemoryMB = 1024 }, 8 << 10, api.CheckWarn, "limits.total.memory_mb = 1024"},
		"a limit above what is there":     {func(c *config.Config) { c.Limits.Total.MemoryMB = 1 << 20 }, 8 << 10, api.CheckOK, "60 of 512 MB each"},
		"agents without limits of memory": {func(c *config.Config) { c.Limits.MemoryMB = 0 }, 8 << 10, api.CheckOK, "not limited"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config.Default()
			c.change(&conf)
			got := roomIn(conf, c.memory<<20)
			require.Equal(t, c.state, got.State, "%+v", got)
			require.Contains(t, got.Found, c.found)
			require.Equal(t, got.State == api.CheckOK, got.Cost == "")
			requireRemedy(t, got)
		})
	}
}
