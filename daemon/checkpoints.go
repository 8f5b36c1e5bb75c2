package daemon

import (
	"context"
	"errors"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/timeline"
)

// checkpointClock makes the checkpoints of [snapshots] every.
func (d *Daemon) checkpointClock() *timeline.Clock {
	return &timeline.Clock{Log: d.Log, Every: func() time.Duration { return time.Duration(d.live().Snapshots.Every) },
		Running: func() []string { return timeline.Running(d.agents.Statuses("")) },
		Make: func(ctx context.Context, name string) error {
			t, err := d.timelineOf(name)
			if err == nil {
				_, _, err = t.Checkpoint(ctx, name, timeline.Mark{Why: api.SnapshotByTime})
			}
			return err
		}}
}

// beforeTask makes a checkpoint before a task begins.
func (d *Daemon) beforeTask(ctx context.Context, h agent.Held, task api.Task) error {
	if d.live().Snapshots.Every == 0 {
		return nil
	}
	ws := d.gitWorkspaces(h.WS.Name)
	if len(ws) == 0 {
		return nil
	}
	host := snapshotHost{ws[0]}
	mark := timeline.BeforeTask(task)
	mark.Still = func(ctx context.Context, _, reason string, act func(context.Context, timeline.Tree) error) error {
		return h.Still(ctx, reason, func(ctx context.Context, h agent.Held) error { return host.read(ctx, h, act) })
	}
	_, _, err := ws[0].timeline.Checkpoint(ctx, h.Name(), mark)
	if errors.Is(err, timeline.ErrLarge) { // the clock makes the first one
		return nil
	}
	return err
}

// Timeline lists the checkpoints and snapshots of an agent.
func (b *backend) Timeline(ctx context.Context, agent string) ([]api.Snapshot, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return nil, err
	}
	return t.List(ctx, agent)
}

// Checkpoint makes a checkpoint of an agent.
func (b *backend) Checkpoint(ctx context.Context, agent string, req api.CheckpointRequest) (api.Snapshot, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return api.Snapshot{}, err
	}
	s, _, err := t.Checkpoint(ctx, agent, timeline.Mark{Why: api.SnapshotByRequest, Note: req.Note})
	return s, err
}

// Rewind brings an agent's files back to a checkpoint.
func (b *backend) Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	return t.Rewind(ctx, agent, req)
}
