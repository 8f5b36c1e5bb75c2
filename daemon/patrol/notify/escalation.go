package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-systemd/v22/journal"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/host/command"
	"polis/daemon/patrol"
	"polis/daemon/patrol/cases"
	"polis/daemon/store/events"
)

const (
	// tick is how often open cases are checked for one that is due again.
	tick = time.Minute
	// retry is when a case that no target took is sent again.
	retry = 5 * time.Minute
)

// Escalator sends the cases of a Book. Set its fields, then Run.
type Escalator struct {
	// Settings are the present ones. They are read for each case.
	Settings func() config.Escalation
	Cases    *cases.Book
	// Hub has an event for each change of a case.
	Hub *events.Hub
	// User returns the user that the command for a case of a workspace runs as; false: none, and the
	// command fails.
	User func(workspace string) (User, bool)
	// Journal: cases go to the journal if the machine has one, else to Log.
	Journal bool
	Log     *slog.Logger
}

// Run sends the cases that are due until ctx ends.
func (e *Escalator) Run(ctx context.Context) {
	n := e.notifier()
	var wg sync.WaitGroup
	wg.Go(func() { n.Run(ctx) })
	e.follow(ctx, n)
	wg.Wait()
}

func (e *Escalator) notifier() *Notifier {
	return &Notifier{Log: e.Log, Again: retry, Deliver: e.deliver, Settings: func() Settings {
		s := e.Settings()
		return Settings{Off: len(s.Command) == 0 && s.Webhook == "" && s.Journal == config.JournalOff, Pause: time.Duration(s.Pause)}
	}}
}

// follow sends the cases that are due until ctx ends: new ones at once.
func (e *Escalator) follow(ctx context.Context, n *Notifier) {
	wake, cancel := e.Hub.Watch()
	defer cancel()
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	var last uint64
	for due := true; ; {
		if due {
			for _, c := range e.Cases.List("", false) {
				if e.due(c) {
					n.Send(e.message(c))
				}
			}
		}
		select {
		case <-wake:
			due = false
			for _, ev := range e.Hub.Since(last) {
				last = ev.ID
				due = due || ev.Type == api.EventCase
			}
		case <-ticker.C:
			due = true
		case <-ctx.Done():
			return
		}
	}
}

func (e *Escalator) due(c api.Case) bool {
	return patrol.Due(c, time.Duration(e.Settings().Again), time.Now())
}

// message is the message for a case that is still due when its turn has come.
func (e *Escalator) message(c api.Case) Message {
	return Message{Key: fmt.Sprintf("%s %d", c.ID, c.Escalated), Notice: func(context.Context) (Notice, bool) {
		c, err := e.Cases.Get(c.ID)
		if err != nil || !e.due(c) {
			return Notice{}, false
		}
		u, _ := e.User(c.Workspace) // without one the command is not run
		return Notice{User: u, Event: api.Event{Time: c.Opened, Type: api.EventCase, Agent: c.Agent, Message: escalationText(c), Data: map[string]any{"case": c}}}, true
	}}
}

// escalationText is one line: what, why, and what a person can do.
func escalationText(c api.Case) string {
	return fmt.Sprintf("%s: agent %s (%s, %s): %s. %s; polisctl patrol show %s", c.ID, c.Agent, c.Kind, c.State, strings.Join(c.Evidence, "; "), c.Next, c.ID)
}

// deliver sends one case to each target. It counts as sent if one target has it.
func (e *Escalator) deliver(ctx context.Context, u User, ev api.Event) (string, error) {
	c, ok := ev.Data["case"].(api.Case)
	if !ok {
		return "", errors.New("the event has no case")
	}
	to := e.Settings()
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
	if to.Journal != config.JournalOff {
		sent("", e.journal(c, ev.Message, config.JournalPriorities[to.Journal]))
	}
	if len(to.Command) > 0 {
		sent(Command{Argv: to.Command, Timeout: time.Duration(to.Timeout)}.Run(ctx, u, ev))
	}
	if to.Webhook != "" {
		sent(post(ctx, to.Webhook, ev))
	}
	if taken > 0 {
		if err := e.Cases.Escalated(c.ID); err != nil {
			errs = append(errs, err)
		}
	}
	return output, errors.Join(errs...)
}

func post(ctx context.Context, to string, ev api.Event) (string, error) {
	t, err := command.ParseWebhook(to)
	if err != nil {
		return "", err
	}
	body, err := json.Marshal(ev)
	if err != nil {
		return "", fmt.Errorf("encode event %s: %w", ev.Type, err)
	}
	return t.Post(ctx, body)
}

// journal writes to the journal with a priority, or to polisd's log where there is no journal.
func (e *Escalator) journal(c api.Case, escalationText string, priority int) error {
	if !e.Journal || !journal.Enabled() {
		e.Log.Warn("case of the patrol", "op", "escalate", "agent", c.Agent, "case", c.ID, "what", escalationText)
		return nil
	}
	err := journal.Send(escalationText, journal.Priority(priority), map[string]string{"SYSLOG_IDENTIFIER": "polisd", "POLIS_CASE": c.ID, "POLIS_AGENT": c.Agent, "POLIS_WORKSPACE": c.Workspace})
	if err != nil {
		return fmt.Errorf("write to the journal: %w", err)
	}
	return nil
}
