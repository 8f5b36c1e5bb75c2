package timeline

import (
	"context"
	"log/slog"
	"time"

	"polis/daemon/api"
)

// Clock makes checkpoints of agents that run, each time that something has changed. Assign the
// fields, then call Run.
type Clock struct {
	// Every is the time between two checkpoints of an agent; 0: none are made.
	Every func() time.Duration
	// Running returns the agents that run.
	Running func() []string
	// Make makes a checkpoint of an agent, if something has changed.
	Make func(ctx context.Context, agent string) error
	Log  *slog.Logger
}

// pollOff is how often Every is read while it is 0.
const pollOff = time.Minute

// Run makes checkpoints until ctx ends, one agent after the other: the disk is one.
func (c *Clock) Run(ctx context.Context) {
	failed := map[string]string{} // what was logged last of an agent
	for {
		every := c.Every()
		wait := every
		if every <= 0 {
			wait = pollOff
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		if every <= 0 {
			continue
		}
		for _, agent := range c.Running() {
			err := c.Make(ctx, agent)
			if ctx.Err() != nil {
				return
			}
			c.report(failed, agent, err)
		}
	}
}

// report logs why an agent has no checkpoint, once for each reason.
func (c *Clock) report(failed map[string]string, agent string, err error) {
	if err == nil {
		delete(failed, agent)
		return
	}
	if api.CodeOf(err) == api.CodeAgentNotFound {
		return
	}
	if text := err.Error(); failed[agent] != text {
		failed[agent] = text
		c.Log.Warn("no checkpoint made", "agent", agent, "err", err)
	}
}
