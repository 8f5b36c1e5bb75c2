package config

import "polis/daemon/api"

// Tasks is the [tasks] table.
type Tasks struct {
	// OnRestart is what is done about a task that was lost because polisd and its shim, or the machine, ended:
	// api.OnRestartKeep, OnRestartRetry or OnRestartAsk.
	OnRestart string `toml:"on_restart"`
}

func defaultTasks() Tasks { return Tasks{OnRestart: api.OnRestartKeep} }

func (c *Config) checkTasks() error {
	switch c.Tasks.OnRestart {
	case api.OnRestartKeep, api.OnRestartRetry, api.OnRestartAsk:
		return nil
	}
	return api.Errorf(api.CodeInvalidConfig, "tasks.on_restart = %q: must be %q, %q or %q", api.Shorten(c.Tasks.OnRestart, 64),
		api.OnRestartKeep, api.OnRestartRetry, api.OnRestartAsk)
}
