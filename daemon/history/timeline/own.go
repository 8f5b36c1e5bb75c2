package timeline

import (
	"context"
	"slices"
	"time"

	"polis/daemon/api"
)

// Own is the part of a timeline that an agent may use: the checkpoints of itself, and not of an agent that
// had its name before. Its rules hold for what a rewind changes.
type Own struct {
	Timeline *Timeline
	Agent    string
	// Since is when the agent was added.
	Since time.Time
	// Hidden reports whether the agent's rules hide a path. Lists do not name it: people, merges and rules of before can
	// have changed what the agent must not know. nil hides nothing.
	Hidden func(path string) bool
	// Mount and Unmount mount a snapshot in the agent's sandbox, and unmount it.
	Mount   func(ctx context.Context, s Stored) (api.SnapshotMount, error)
	Unmount func(ctx context.Context, id string) (api.SnapshotMount, error)
}

// Do does what the agent wants.
func (o Own) Do(ctx context.Context, req api.TimelineRequest) (api.TimelineResponse, error) {
	t := o.Timeline
	switch req.Op {
	case api.TimelineList:
		all, err := o.list(ctx)
		return api.TimelineResponse{Checkpoints: all}, err
	case api.TimelineCheckpoint:
		return o.one(t.Checkpoint(ctx, o.Agent, Mark{Why: api.SnapshotByAgent, Note: req.Note}))
	case api.TimelineTool:
		return o.one(t.Checkpoint(ctx, o.Agent, BeforeTool(req.Tool, req.Note)))
	case api.TimelineRewind:
		all, err := o.list(ctx)
		if err != nil {
			return api.TimelineResponse{}, err
		}
		s, err := t.at(all, o.Agent, req.Rewind.To)
		if err != nil {
			return api.TimelineResponse{}, api.AsError(err).WithHint("polisctl timeline lists the checkpoints")
		}
		if err := t.makeRoom(ctx, o.Agent); err != nil {
			return api.TimelineResponse{}, err
		}
		res, err := t.rewind(ctx, s.ID, *req.Rewind, true)
		return api.TimelineResponse{Restored: &res}, err
	case api.TimelineMount:
		m, err := o.mount(ctx, req.Which)
		return api.TimelineResponse{Mounted: &m}, err
	case api.TimelineUnmount:
		m, err := o.Unmount(ctx, req.Which)
		return api.TimelineResponse{Mounted: &m}, err
	}
	return api.TimelineResponse{}, api.Errorf(api.CodeBadRequest, "op = %q: must be list, checkpoint, rewind, mount or umount", api.Shorten(req.Op, 32))
}

func (o Own) mount(ctx context.Context, which string) (m api.SnapshotMount, err error) {
	all, err := o.list(ctx)
	if err != nil {
		return m, err
	}
	s, err := o.Timeline.at(all, o.Agent, which)
	if err != nil {
		return m, api.AsError(err).WithHint("polisctl timeline lists the checkpoints")
	}
	err = o.Timeline.Use(ctx, s.ID, func(s Stored) error {
		m, err = o.Mount(ctx, s)
		return err
	})
	return m, err
}

func (o Own) list(ctx context.Context) ([]api.Snapshot, error) {
	all, err := o.Timeline.List(ctx, o.Agent)
	all = slices.DeleteFunc(all, func(s api.Snapshot) bool { return s.Time.Before(o.Since) })
	for i := range all {
		all[i] = o.shown(all[i])
	}
	return all, err
}

// shown returns a checkpoint without names that are hidden from the agent. They stay in the number of changed paths.
func (o Own) shown(s api.Snapshot) api.Snapshot {
	if o.Hidden != nil {
		s.Changed = slices.DeleteFunc(slices.Clone(s.Changed), o.Hidden)
	}
	return s
}

func (o Own) one(s api.Snapshot, _ bool, err error) (api.TimelineResponse, error) {
	return api.TimelineResponse{Checkpoints: []api.Snapshot{o.shown(s)}}, err
}
