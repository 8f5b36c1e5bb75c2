package notify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"polis/daemon/api"
	"polis/daemon/host/command"
)

// Targets are the places that a message is sent to.
type Targets struct {
	// Command is run with the event as JSON on its standard input; without Argv none is.
	Command Command
	// Webhook gets the event by POST.
	Webhook command.Webhook
	// Desktop shows the event to the user; nil: nobody.
	Desktop *Desktop
}

// Set reports whether there is a target.
func (t Targets) Set() bool { return len(t.Command.Argv) > 0 || t.Webhook.Set() || t.Desktop != nil }

// Deliver sends one event to each target. The error has those of all targets that did not take it.
func (t Targets) Deliver(ctx context.Context, u User, ev api.Event) (output string, err error) {
	var errs []error
	if len(t.Command.Argv) > 0 {
		var err error
		output, err = t.Command.Run(ctx, u, ev)
		errs = append(errs, err)
	}
	if t.Webhook.Set() {
		errs = append(errs, t.post(ctx, ev))
	}
	if t.Desktop != nil {
		errs = append(errs, t.Desktop.Show(ctx, u, ev))
	}
	return output, errors.Join(errs...)
}

func (t Targets) post(ctx context.Context, ev api.Event) error {
	body, err := json.Marshal(ev)
	if err != nil {
		return fmt.Errorf("encode event %s: %w", ev.Type, err)
	}
	_, err = t.Webhook.Post(ctx, body)
	return err
}
