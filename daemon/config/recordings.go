package config

import (
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
)

// Recordings is the [recordings] table: what is kept of requests to model services and their answers.
type Recordings struct {
	// TaskMB bounds the recording of one task, MaxMB those of all tasks together, in MiB. The oldest
	// recordings are removed.
	TaskMB int `toml:"task_mb"`
	MaxMB  int `toml:"max_mb"`
	// Keep is how long a recording is kept.
	Keep setting.Duration `toml:"keep"`
}

func defaultRecordings() Recordings {
	return Recordings{TaskMB: 64, MaxMB: 1024, Keep: setting.Duration(30 * 24 * time.Hour)}
}

// Records reports whether the requests of a role's agents to a model service are recorded.
func (c *Config) Records(role, model string) bool {
	if r := c.Roles[role].Gateway.Record; r != nil {
		return *r
	}
	return c.Models[model].Record || c.Gateway.Record != nil && *c.Gateway.Record
}

func (c *Config) checkRecordings() error {
	r := c.Recordings
	for key, n := range map[string]int{"task_mb": r.TaskMB, "max_mb": r.MaxMB} {
		if n < 1 || n > 1<<20 {
			return api.Errorf(api.CodeInvalidConfig, "recordings.%s = %d: must be from 1 to %d", key, n, 1<<20)
		}
	}
	if keep := time.Duration(r.Keep); keep < time.Hour || keep > 87600*time.Hour {
		return api.Errorf(api.CodeInvalidConfig, "recordings.keep = %q: must be from 1h to 87600h", keep)
	}
	return nil
}
