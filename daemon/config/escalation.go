package config

import (
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/setting"
	"polis/daemon/host/command"
)

// Escalation is the [patrol.escalation] table: who is notified of a case of the patrol.
type Escalation struct {
	// Command is a program with its arguments; empty: none is run.
	Command []string `toml:"command"`
	// Webhook gets a case by POST: a port of the loopback address, or a socket; see command.ParseWebhook.
	Webhook string `toml:"webhook"`
	// Journal is the priority of the journal's entry, or JournalOff.
	Journal string `toml:"journal"`
	// Again is when a case that is still open is sent again, then after twice the time, and so on.
	Again setting.Duration `toml:"again"`
	// Pause is the shortest time between two messages, Timeout bounds a run of the command.
	Pause   setting.Duration `toml:"pause"`
	Timeout setting.Duration `toml:"timeout"`
}

// JournalOff is the priority with which nothing is written to the journal.
const JournalOff = "off"

// JournalPriorities are those of syslog(3) that an escalation can have.
var JournalPriorities = map[string]int{"emerg": 0, "alert": 1, "crit": 2, "err": 3, "warning": 4, "notice": 5, "info": 6}

func defaultEscalation() Escalation {
	return Escalation{Journal: "warning", Again: setting.Duration(time.Hour), Pause: setting.Duration(5 * time.Second), Timeout: setting.Duration(30 * time.Second)}
}

func (c *Config) checkEscalation() error {
	e := c.Patrol.Escalation
	if err := checkCommand(e.Command); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.command = %q: %w", api.Shorten(strings.Join(e.Command, " "), 64), err)
	}
	if _, err := command.ParseWebhook(e.Webhook); err != nil {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.webhook = %q: %w", api.Shorten(e.Webhook, 64), err)
	}
	if _, ok := JournalPriorities[e.Journal]; !ok && e.Journal != JournalOff {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.journal = %q: must be off, emerg, alert, crit, err, warning, notice or info", api.Shorten(e.Journal, 64))
	}
	if d := time.Duration(e.Again); d != 0 && (d < time.Minute || d > 24*time.Hour) {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.again = %q: must be 0s, for never, or from 1m to 24h", d)
	}
	if d := time.Duration(e.Pause); d < 0 || d > 24*time.Hour {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.pause = %q: must be from 0s to 24h", d)
	}
	if d := time.Duration(e.Timeout); d < time.Second || d > 10*time.Minute {
		return api.Errorf(api.CodeInvalidConfig, "patrol.escalation.timeout = %q: must be from 1s to 10m", d)
	}
	return nil
}
