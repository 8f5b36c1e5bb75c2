package tui

import (
	"context"
	"errors"
	"time"

	tea "charm.land/bubbletea/v2"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// eventMsg is something that happened.
type eventMsg api.Event

// streamMsg reports whether events come: err is why not.
type streamMsg struct{ err error }

// How long follow waits before it tries again.
const (
	firstWait = 100 * time.Millisecond
	lastWait  = 2 * time.Second
)

// follow sends what happens, from the oldest event that is kept, until ctx
// ends. After a loss it continues from the last event it saw.
func follow(ctx context.Context, d Daemon, send func(tea.Msg)) {
	var since uint64
	wait := firstWait
	for ctx.Err() == nil {
		err := healthy(ctx, d)
		if err == nil {
			send(streamMsg{})
			sctx, cancel := context.WithTimeout(ctx, streamLimit)
			err = d.Events(sctx, client.EventQuery{Since: since, Follow: true}, func(e api.Event) error {
				since, wait = e.ID, firstWait
				send(eventMsg(e))
				return nil
			})
			over := errors.Is(sctx.Err(), context.DeadlineExceeded)
			cancel()
			if over {
				continue
			}
		}
		if ctx.Err() != nil {
			return
		}
		send(streamMsg{err: err})
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
		wait = min(2*wait, lastWait)
	}
}

func healthy(ctx context.Context, d Daemon) error {
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return d.Health(ctx)
}
