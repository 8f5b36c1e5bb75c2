package config

import (
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/host/command"
)

// Notify is the [notify] table: where messages about what people wait for are sent.
type Notify struct {
	// Events are the kinds of messages; see NotifyKinds.
	Events []string `toml:"events"`
	// Command is a program with its arguments; empty: none is run.
	Command []string `toml:"command"`
	// Webhook gets each message by POST: a port of the loopback address, or a socket; see command.ParseWebhook.
	Webhook string `toml:"webhook"`
	// Desktop shows each message on the desktop of the user of the workspace's agents.
	Desktop bool `toml:"desktop"`
	// Pause is the shortest time between two messages, Timeout bounds a run of a command.
	Pause   setting.Duration `toml:"pause"`
	Timeout setting.Duration `toml:"timeout"`
}

// NotifyKinds are the kinds of messages: an agent asks, a task has ended, the check of a merge has failed, a merge has
// conflicts, a budget for models is used up or nearly.
func NotifyKinds() []string { return []string{"question", "task", "check", "conflict", "budget"} }

func defaultNotify() Notify {
	return Notify{Events: NotifyKinds(), Pause: setting.Duration(time.Second), Timeout: setting.Duration(30 * time.Second)}
}

func (c *Config) checkNotify() error {
	n := c.Notify
	for _, kind := range n.Events {
		if !slices.Contains(NotifyKinds(), kind) {
			return api.Errorf(api.CodeInvalidConfig, "notify.events: %q is no kind of message: must be one of %s", api.Shorten(kind, 32), strings.Join(NotifyKinds(), ", "))
		}
	}
	if err := checkCommand(n.Command); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "notify.command = %q: %w", api.Shorten(strings.Join(n.Command, " "), 64), err)
	}
	if _, err := command.ParseWebhook(n.Webhook); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "notify.webhook = %q: %w", api.Shorten(n.Webhook, 64), err)
	}
	if d := time.Duration(n.Pause); d < 0 || d > 24*time.Hour {
		return api.Errorf(api.CodeInvalidConfig, "notify.pause = %q: must be from 0s to 24h", d)
	}
	if d := time.Duration(n.Timeout); d < time.Second || d > 10*time.Minute {
		return api.Errorf(api.CodeInvalidConfig, "notify.timeout = %q: must be from 1s to 10m", d)
	}
	return nil
}
