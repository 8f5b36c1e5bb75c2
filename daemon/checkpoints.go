package daemon

import (
	"context"
	"errors"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/timeline"
	"polis/fusefs/policy"
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
	d.recordings.Wake()
	d.shims.NoteBlocked(ctx, h.Name())
	return d.ofHeld(ctx, h, timeline.BeforeTask(task))
}

// beforeRebase makes a checkpoint before the target is merged into an agent's branch.
func (d *Daemon) beforeRebase(ctx context.Context, h agent.Held) error {
	return d.ofHeld(ctx, h, timeline.BeforeRebase(h.WS.Target))
}

// beforeTime bounds a checkpoint before an operation, which does not wait longer for another snapshot, or
// for an agent that is busy.
const beforeTime = 10 * time.Second

// ofHeld makes a checkpoint of an agent that the caller holds, unless the configuration has none made by
// themselves.
func (d *Daemon) ofHeld(ctx context.Context, h agent.Held, mark timeline.Mark) error {
	if d.live().Snapshots.Every == 0 {
		return nil
	}
	ws := d.gitWorkspaces(h.WS.Name)
	if len(ws) == 0 {
		return nil
	}
	mark.Still = snapshotHost{ws[0]}.still(h)
	ctx, cancel := context.WithTimeout(ctx, beforeTime)
	defer cancel()
	_, _, err := ws[0].timeline.Checkpoint(ctx, h.Name(), mark)
	if errors.Is(err, timeline.ErrLarge) {
		return api.Errorf(api.CodeBadState, "the files of agent %s are many, and are not all read yet, which polis does while it works: %w", h.Name(), err)
	}
	return err
}

// prepareCheckpoints reads the files of an agent whose shim has started, if they are many, so that the first task has a
// checkpoint before it. One agent has its turn at a time: the disk is one.
func (d *Daemon) prepareCheckpoints(ctx context.Context, name string) {
	if d.live().Snapshots.Every == 0 {
		return
	}
	select {
	case d.aheadTurn <- struct{}{}:
	case <-ctx.Done():
		return
	}
	defer func() { <-d.aheadTurn }()
	t, err := d.timelineOf(name)
	if err != nil {
		return // a task reports it
	}
	began := time.Now()
	switch read, err := t.Prepare(ctx, name); {
	case ctx.Err() != nil:
	case err != nil:
		d.Log.Warn("files not read ahead of the first checkpoint", "agent", name, "err", err)
	case read:
		d.Log.Info("files read ahead of the first checkpoint", "agent", name, "took", time.Since(began).Round(time.Millisecond))
	}
}

// beforeMerge makes a checkpoint before an agent's branch is merged. It is merged without one, too: a merge
// changes no file of the agent.
func (d *Daemon) beforeMerge(ctx context.Context, w *workspace, e api.QueueEntry) {
	if d.live().Snapshots.Every == 0 {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, beforeTime)
	defer cancel()
	_, _, err := w.timeline.Checkpoint(bounded, e.Agent, timeline.BeforeMerge(e, w.agents.Target))
	if err != nil && ctx.Err() == nil && !errors.Is(err, timeline.ErrLarge) {
		d.Log.Warn("no checkpoint made before a merge", "agent", e.Agent, "err", err)
	}
}

// Timeline lists the checkpoints and snapshots of an agent.
func (b *backend) Timeline(ctx context.Context, agent string) ([]api.Snapshot, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return nil, err
	}
	return t.List(ctx, agent)
}

// DiffTimeline compares the files of an agent at two moments.
func (b *backend) DiffTimeline(ctx context.Context, agent, from, to string) (api.SnapshotDiff, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return api.SnapshotDiff{}, err
	}
	return t.DiffAt(ctx, agent, from, to)
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

// OwnTimeline does what an agent wants of its own checkpoints.
func (b *backend) OwnTimeline(ctx context.Context, name string, req api.TimelineRequest) (api.TimelineResponse, error) {
	t, err := b.timelineOf(name)
	if err != nil {
		return api.TimelineResponse{}, err
	}
	h, err := b.agents.Reach(name)
	if err != nil {
		return api.TimelineResponse{}, err
	}
	if req.Op == api.TimelineTool && b.live().Snapshots.Every == 0 {
		return api.TimelineResponse{}, nil
	}
	_, rules, err := b.reading(h.Copy().Rules())
	if err != nil {
		return api.TimelineResponse{}, err
	}
	res, err := timeline.Own{Timeline: t, Agent: name, Since: h.Copy().CreatedAt, Mount: b.mountInside,
		Hidden: func(path string) bool { return rules.Decide(path, false).Read == policy.Hide },
		Unmount: func(ctx context.Context, id string) (api.SnapshotMount, error) {
			m, err := b.agents.UnmountSnapshot(ctx, name, id, true)
			return api.SnapshotMount{ID: id, Agent: name, At: m.At, Inside: true}, err
		}}.Do(ctx, req)
	if errors.Is(err, timeline.ErrLarge) && req.Op == api.TimelineTool {
		return api.TimelineResponse{}, nil
	}
	return res, err
}

// changing reports to an agent's shim what is about to change below its view.
func (d *Daemon) changing(ctx context.Context, name string, paths []string) error {
	h, err := d.agents.Reach(name)
	if err != nil {
		return err
	}
	_, err = h.Changes(ctx, wire.Noting(paths, "more files changed in an update to the target than are remembered"))
	return err
}
