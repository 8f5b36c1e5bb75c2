package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/notify"
	"polis/daemon/patrol"
	"polis/daemon/webhook"
)

const (
	// escalateTick is how often open cases are checked for one that is due again.
	escalateTick = time.Minute
	// escalateRetry is when a case that no target took is sent again.
	escalateRetry = 5 * time.Minute
)

// escalations sends cases of the patrol to the targets of [patrol.escalation].
func (d *Daemon) escalations() *notify.Notifier {
	return &notify.Notifier{Log: d.Log, Again: escalateRetry, Deliver: d.deliverCase, Settings: func() notify.Settings {
		e := d.live().Patrol.Escalation
		return notify.Settings{Off: len(e.Command) == 0 && e.Webhook == "" && e.Journal == config.JournalOff, Pause: time.Duration(e.Pause)}
	}}
}

// followCases sends the cases that are due until ctx ends: new ones at once.
func (d *Daemon) followCases(ctx context.Context, n *notify.Notifier) {
	wake, cancel := d.hub.Watch()
	defer cancel()
	tick := time.NewTicker(escalateTick)
	defer tick.Stop()
	var last uint64
	for due := true; ; {
		if due {
			for _, c := range d.cases.List("", false) {
				if d.caseDue(c) {
					n.Send(d.caseNotice(c))
				}
			}
		}
		select {
		case <-wake:
			due = false
			for _, e := range d.hub.Since(last) {
				last = e.ID
				due = due || e.Type == api.EventCase
			}
		case <-tick.C:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

func (d *Daemon) caseDue(c api.Case) bool {
	return patrol.Due(c, time.Duration(d.live().Patrol.Escalation.Again), time.Now())
}

// caseNotice is the message for a case that is still due when its turn has come.
func (d *Daemon) caseNotice(c api.Case) notify.Message {
	return notify.Message{Key: fmt.Sprintf("%s %d", c.ID, c.Escalated), Notice: func(context.Context) (notify.Notice, bool) {
		c, err := d.cases.Get(c.ID)
		if err != nil || !d.caseDue(c) {
			return notify.Notice{}, false
		}
		u, _ := d.notifyUser(c.Workspace) // without one the command is not run
		return notify.Notice{User: u, Event: api.Event{Time: c.Opened, Type: api.EventCase, Agent: c.Agent, Message: caseText(c), Data: map[string]any{"case": c}}}, true
	}}
}

// caseText is one line: what, why, and what a person can do.
func caseText(c api.Case) string {
	return fmt.Sprintf("%s: agent %s (%s, %s): %s. %s; polisctl patrol show %s", c.ID, c.Agent, c.Kind, c.State, strings.Join(c.Evidence, "; "), c.Next, c.ID)
}

// deliverCase sends one case to each target. It counts as sent if one target has it.
func (d *Daemon) deliverCase(ctx context.Context, u notify.User, ev api.Event) (string, error) {
	c, ok := ev.Data["case"].(api.Case)
	if !ok {
		return "", errors.New("the event has no case")
	}
	e := d.live().Patrol.Escalation
	taken, output := 0, ""
	var errs []error
	sent := func(out string, err error) {
		if err != nil {
			errs = append(errs, err)
			return
		}
		taken++
		output = out
	}
	if e.Journal != config.JournalOff {
		sent("", d.journalCase(c, ev.Message, config.JournalPriorities[e.Journal]))
	}
	if len(e.Command) > 0 {
		sent(notify.Command{Argv: e.Command, Timeout: time.Duration(e.Timeout)}.Run(ctx, u, ev))
	}
	if e.Webhook != "" {
		sent(postCase(ctx, e.Webhook, ev))
	}
	if taken > 0 {
		if err := d.cases.Escalated(c.ID); err != nil {
			errs = append(errs, err)
		}
	}
	return output, errors.Join(errs...)
}

func postCase(ctx context.Context, to string, ev api.Event) (string, error) {
	t, err := webhook.Parse(to)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(ev)
	if err != nil {
		return "", fmt.Errorf("encode event %s: %w", ev.Type, err)
	}
	return t.Post(ctx, body)
}

// journalCase writes to the journal with a priority, or to polisd's log where there is no journal.
func (d *Daemon) journalCase(c api.Case, text string, priority int) error {
	if !d.Systemd || !journal.Enabled() {
		d.Log.Warn("case of the patrol", "op", "escalate", "agent", c.Agent, "case", c.ID, "what", text)
		return nil
	}
	err := journal.Send(text, journal.Priority(priority), map[string]string{"SYSLOG_IDENTIFIER": "polisd", "POLIS_CASE": c.ID, "POLIS_AGENT": c.Agent, "POLIS_WORKSPACE": c.Workspace})
	if err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return nil
}
