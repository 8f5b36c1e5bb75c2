package daemon

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"time"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/git/leases"
	"polis/daemon/history/snapshot"
	"polis/daemon/history/timeline"
	"polis/fusefs/policy"
)

// restoreHold is how long the leases of restored files last, as those of a write.
const restoreHold = 30 * time.Second

// newTimeline makes the snapshots of a workspace. Nothing is read yet.
func (w *workspace) newTimeline(name string) *timeline.Timeline {
	return &timeline.Timeline{Dir: w.root.Snapshots(), Workspace: name, Host: snapshotHost{w}, Log: w.d.Log, Now: time.Now, Publish: func(e api.Event) { w.d.hub.Publish(e) }, Receipt: func(e api.Event) { w.d.receipts.Put(e) },
		Settle: func(ctx context.Context) { w.d.receipts.Settle(ctx) },
		Limits: func() timeline.Limits {
			c := w.d.live().Snapshots
			return timeline.Limits{AgentBytes: int64(c.AgentMB) << 20, StoreBytes: int64(c.MaxMB) << 20, TTL: time.Duration(c.TTL), Keep: c.Keep}
		}}
}

// snapshotHost implements timeline.Host for a workspace.
type snapshotHost struct{ w *workspace }

// Still opens the agent's files below its view while none of its processes runs.
func (h snapshotHost) Still(ctx context.Context, name, reason string, act func(context.Context, timeline.Tree) error) error {
	return h.w.d.agents.Still(ctx, name, "have a snapshot", reason, func(ctx context.Context, a agent.Held) error { return h.read(ctx, a, act) })
}

// Hold keeps other operations of the agent from beginning.
func (h snapshotHost) Hold(ctx context.Context, name string, act func(context.Context, timeline.Still) error) error {
	return h.w.d.agents.Hold(ctx, name, "have a snapshot", func(ctx context.Context, a agent.Held) error { return act(ctx, h.still(a)) })
}

// still holds the processes of an agent, and opens its files.
func (h snapshotHost) still(a agent.Held) timeline.Still {
	return func(ctx context.Context, reason string, act func(context.Context, timeline.Tree) error) error {
		return a.Still(ctx, reason, func(ctx context.Context, a agent.Held) error { return h.read(ctx, a, act) })
	}
}

// Read opens the agent's files below its view while it may change them.
func (h snapshotHost) Read(ctx context.Context, name string, act func(context.Context, timeline.Tree) error) error {
	a, err := h.w.d.agents.Reach(name)
	if err != nil {
		return err
	}
	return h.read(ctx, a, act)
}

// read opens the files of an agent.
func (h snapshotHost) read(ctx context.Context, a agent.Held, act func(context.Context, timeline.Tree) error) (err error) {
	d, name := h.w.d, a.Name()
	files, err := h.w.git.Files(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()
	exclude := filepath.Join(h.w.root.Private(name), "info", "exclude")
	rules, end, err := h.rules(a, files.Root, exclude)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	k := a.Copy()
	_, set, err := d.reading(k.Rules())
	if err != nil {
		return err
	}
	git, commit, err := h.git(d.charge(ctx, name), a, set.AllReadable())
	if err != nil {
		return err
	}
	held, err := timeline.NewHeld(d.live().Snapshots.Ignored)
	if err != nil {
		return err
	}
	return act(ctx, timeline.Tree{Git: git, Held: held, Root: files.Root, Written: files.Own, Branch: k.Branch, Commit: commit, Owner: snapshot.Owner{UID: a.WS.UID, GID: a.WS.GID}, Ignored: rules.Exempt, Changed: a.Invalidate, Rules: timeline.Stamp(exclude),
		Changes: func(ctx context.Context, since string) (timeline.Changes, error) {
			return timeline.ChangesOf(a.Changes(ctx, wire.ChangesRequest{Since: since}))
		},
		Note: func(ctx context.Context, paths []string) error {
			_, err := a.Changes(ctx, wire.Noting(paths, "more files were restored than are remembered"))
			return err
		},
		Skip:     h.skip(name),
		Index:    func() (timeline.Index, error) { return timeline.IndexOf(h.w.git.Index(name)) },
		Declared: func(path string, dir bool) bool { return set.Decide(path, dir).Write == policy.Allow }})
}

func (h snapshotHost) Writable(ctx context.Context, name string) error {
	return h.w.git.Writable(ctx, name)
}

func (h snapshotHost) Lock(ctx context.Context, name string, paths []string) (func(), error) {
	return leases.Restore(ctx, h.w.d.locks, h.w.agents.Name, name, paths, restoreHold, h.w.d.Log)
}

// timelineOf returns the snapshots of an agent's workspace.
func (d *Daemon) timelineOf(of string) (*timeline.Timeline, error) {
	name, err := d.agents.WorkspaceOf(of)
	if err != nil {
		return nil, err
	}
	for _, w := range d.gitWorkspaces(name) {
		return w.timeline, nil
	}
	ws, err := d.agents.Workspace(name)
	if err == nil {
		err = ws.NeedsGit(agent.NoSnapshots)
	}
	return nil, err
}

// timelineWith returns the workspace's snapshots that have this one.
func (d *Daemon) timelineWith(ctx context.Context, id string) (*timeline.Timeline, error) {
	all := d.gitWorkspaces("")
	for _, w := range all {
		if _, ok, err := w.timeline.Find(ctx, id); ok || err != nil {
			return w.timeline, err
		}
	}
	return nil, timeline.NotFound(id)
}

// CreateSnapshot makes a snapshot of an agent's files.
func (b *backend) CreateSnapshot(ctx context.Context, agent string, req api.SnapshotRequest) (api.Snapshot, error) {
	t, err := b.timelineOf(agent)
	if err != nil {
		return api.Snapshot{}, err
	}
	return t.Create(ctx, agent, req)
}

// Snapshots lists the snapshots of a workspace, or of all, and of one agent, if they are not "".
func (b *backend) Snapshots(ctx context.Context, workspace, agent string) ([]api.Snapshot, error) {
	if workspace != "" {
		ws, err := b.Workspace(workspace)
		if err != nil {
			return nil, err
		}
		workspace = ws.Name
	}
	out := []api.Snapshot{}
	for _, w := range b.gitWorkspaces(workspace) {
		list, err := w.timeline.List(ctx, agent)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(list, timeline.IsCheckpoint)...)
	}
	return out, nil
}

// Snapshot returns one snapshot.
func (b *backend) Snapshot(ctx context.Context, id string) (api.Snapshot, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	s, err := t.Describe(ctx, id)
	if err != nil {
		return s, err
	}
	b.addMounts(ctx, &s)
	return s, nil
}

// SnapshotFiles returns what a snapshot has.
func (b *backend) SnapshotFiles(ctx context.Context, id string) ([]api.SnapshotFile, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.Files(ctx, id)
}

// SnapshotContent writes a file of a snapshot.
func (b *backend) SnapshotContent(ctx context.Context, id, path string, to io.Writer) error {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return err
	}
	return t.Content(ctx, id, path, to)
}

// DiffSnapshot compares a snapshot with another one, or with the agent's files now.
func (b *backend) DiffSnapshot(ctx context.Context, id, to string) (api.SnapshotDiff, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotDiff{}, err
	}
	return t.Diff(ctx, id, to)
}

// VerifySnapshot compares what a snapshot needs with its hashes.
func (b *backend) VerifySnapshot(ctx context.Context, id string) (api.SnapshotCheck, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotCheck{}, err
	}
	return t.Verify(ctx, id)
}

// CompareSnapshot is VerifySnapshot, and compares the files of an agent of the same workspace with it;
// "" is the agent that it is of.
func (b *backend) CompareSnapshot(ctx context.Context, id, agent string) (api.SnapshotCheck, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotCheck{}, err
	}
	if agent != "" {
		of, err := b.timelineOf(agent)
		if err != nil {
			return api.SnapshotCheck{}, err
		}
		if of != t {
			return api.SnapshotCheck{}, api.Errorf(api.CodeBadRequest, "agent %s is of workspace %s, and snapshot %s is of workspace %s", agent, of.Workspace, id, t.Workspace).WithHint("polisctl snapshot list")
		}
	}
	return t.Compare(ctx, id, agent)
}

// RestoreSnapshot brings an agent's files back to a snapshot.
func (b *backend) RestoreSnapshot(ctx context.Context, id string, req api.SnapshotRestoreRequest) (api.SnapshotRestored, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	return t.Restore(ctx, id, req)
}

// RemoveSnapshot deletes a snapshot, and the contents that no other one needs.
func (b *backend) RemoveSnapshot(ctx context.Context, id string) (api.Snapshot, error) {
	t, err := b.timelineWith(ctx, id)
	if err != nil {
		return api.Snapshot{}, err
	}
	if rec, ok, err := t.Find(ctx, id); err == nil && ok {
		if err := b.unmountAll(ctx, rec.Agent, id); err != nil {
			return api.Snapshot{}, err
		}
	}
	r, err := t.Remove(ctx, id)
	if err != nil {
		return r, err
	}
	for _, w := range b.gitWorkspaces(r.Workspace) {
		b.collectSnapshots(ctx, w)
	}
	return r, nil
}

// collectSnapshots removes the contents that no snapshot needs.
func (d *Daemon) collectSnapshots(ctx context.Context, w *workspace) {
	if err := w.timeline.Collect(ctx); err != nil && ctx.Err() == nil {
		d.Log.Warn("contents that no snapshot needs not removed", "workspace", w.agents.Name, "err", err)
	}
}

// resumeRestores completes the restores that the last polisd did not.
func (d *Daemon) resumeRestores(ctx context.Context) {
	for _, w := range d.gitWorkspaces("") {
		done, err := w.timeline.Resume(ctx, func(agent string) bool {
			name, err := d.agents.WorkspaceOf(agent)
			return err == nil && name == w.agents.Name
		})
		for _, text := range done {
			d.Log.Warn("snapshot restored after a crash", "workspace", w.agents.Name, "what", text)
		}
		if err != nil && ctx.Err() == nil {
			d.Log.Error("snapshot not restored after a crash", "workspace", w.agents.Name, "err", err)
		}
	}
}

// closeTimelines closes the stores.
func (d *Daemon) closeTimelines() error {
	var errs []error
	for _, w := range d.gitWorkspaces("") {
		errs = append(errs, w.timeline.Close())
	}
	return errors.Join(errs...)
}
