package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"polis/daemon/api"
	"polis/daemon/http/client"
)

// timelineCalls are requests about checkpoints: of polisd on the host, of the agent's own shim in a
// sandbox.
type timelineCalls interface {
	Timeline(ctx context.Context, agent string) ([]api.Snapshot, error)
	Checkpoint(ctx context.Context, agent string, req api.CheckpointRequest) (api.Snapshot, error)
	Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error)
}

// insideTimeline makes them in a sandbox, for the agent itself.
type insideTimeline struct{ c *client.Inside }

func (i insideTimeline) Timeline(ctx context.Context, _ string) ([]api.Snapshot, error) {
	res, err := i.c.Timeline(ctx, api.TimelineRequest{Op: api.TimelineList})
	return res.Checkpoints, err
}

func (i insideTimeline) Checkpoint(ctx context.Context, _ string, req api.CheckpointRequest) (api.Snapshot, error) {
	res, err := i.c.Timeline(ctx, api.TimelineRequest{Op: api.TimelineCheckpoint, Note: req.Note})
	if err != nil {
		return api.Snapshot{}, err
	}
	if len(res.Checkpoints) != 1 {
		return api.Snapshot{}, api.Errorf(api.CodeInternal, "the answer has %d checkpoints: it must have one", len(res.Checkpoints))
	}
	return res.Checkpoints[0], nil
}

func (i insideTimeline) Rewind(ctx context.Context, _ string, req api.RewindRequest) (api.SnapshotRestored, error) {
	res, err := i.c.Timeline(ctx, api.TimelineRequest{Op: api.TimelineRewind, Rewind: &req})
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	if res.Restored == nil {
		return api.SnapshotRestored{}, api.Errorf(api.CodeInternal, "the answer has no result of the rewind")
	}
	return *res.Restored, nil
}

// callTimeline is call for the agent that the first argument names, and callInside for the agent itself in a
// sandbox: its name is then "".
func (a *app) callTimeline(cmd *cobra.Command, args []string, limit time.Duration, fn func(ctx context.Context, name string, c timelineCalls) error) error {
	if _, inside := a.insidePath(); inside {
		if a.timeout > 0 {
			limit = a.timeout
		}
		return a.callInside(cmd, limit, func(ctx context.Context, c *client.Inside) error { return fn(ctx, "", insideTimeline{c}) })
	}
	if err := checkAgents(args[0]); err != nil {
		return err
	}
	return a.call(cmd, limit, func(ctx context.Context, c *client.Client) error { return fn(ctx, args[0], c) })
}

// takesAgent requires the name of an agent and at most more arguments (-1: any number); in a sandbox only
// these.
func (a *app) takesAgent(more int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if _, inside := a.insidePath(); inside {
			if len(args) > 0 && more == 0 {
				return usagef("%s takes no argument in a sandbox, got %q", cmd.CommandPath(), clean(args[0])).WithHint("an agent has its own checkpoints only")
			}
			return nil
		}
		if more >= 0 {
			more++
		}
		return takes(1, more, "the NAME of an agent")(cmd, args)
	}
}

// whose is an agent for people; "" is the agent itself.
func whose(name string) string {
	if name == "" {
		return "this agent"
	}
	return "agent " + name
}
