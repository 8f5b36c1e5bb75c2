package timeline

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/daemon/store"
	"polis/internal/failpoint"
)

// Create makes a snapshot of an agent's files. The agent is held still while they are read, not
// while they are written to the disk.
func (t *Timeline) Create(ctx context.Context, agent string, req api.SnapshotRequest) (api.Snapshot, error) {
	if req.Covers == "" {
		req.Covers = api.SnapshotFiles
	}
	switch req.Covers {
	case api.SnapshotFiles, api.SnapshotAll, api.SnapshotDeclared:
	default:
		return api.Snapshot{}, api.Errorf(api.CodeBadRequest, "covers = %q: must be %q, %q or %q", api.Shorten(req.Covers, 32), api.SnapshotFiles, api.SnapshotAll, api.SnapshotDeclared)
	}
	if len(req.Note) > maxNote {
		return api.Snapshot{}, api.Errorf(api.CodeBadRequest, "note has %d bytes: at most %d", len(req.Note), maxNote)
	}
	var s api.Snapshot
	err := t.withRoom(ctx, agent, false, func() error {
		return t.Host.Hold(ctx, agent, func(ctx context.Context, still Still) (err error) {
			s, err = t.create(ctx, agent, req, still)
			return err
		})
	})
	return s, err
}

// create is Create for a request that was checked and an agent that is held.
func (t *Timeline) create(ctx context.Context, agent string, req api.SnapshotRequest, still Still) (api.Snapshot, error) {
	w, err := t.begin(ctx, agent)
	if err != nil {
		return api.Snapshot{}, err
	}
	defer w.close()
	w.rec.Why, w.rec.Note, w.rec.Covers = api.SnapshotByUser, req.Note, req.Covers
	began := time.Now()
	err = still(ctx, "its files are saved in a snapshot", func(ctx context.Context, tree Tree) error {
		began = time.Now()
		w.rec.Time = t.Now().UTC() // nothing is written from here on
		err := w.scan(ctx, tree, nil)
		w.rec.StillMS = time.Since(began).Milliseconds()
		return err
	})
	if err != nil {
		return api.Snapshot{}, err
	}
	failpoint.Hit("snapshot:read")
	if err := w.commit(ctx); err != nil {
		return api.Snapshot{}, err
	}
	failpoint.Hit("snapshot:done")
	return w.rec, nil
}

const limitHint = "polisctl snapshot rm removes snapshots; snapshots.agent_mb and snapshots.max_mb are the limits"

// writer is a snapshot that is being made.
type writer struct {
	t     *Timeline
	batch *cas.Batch
	rec   api.Snapshot
	state *snapshot.Manifest
	got   *captured // nil unless it continues the series of checkpoints
	// limited: a large tree that must be read as a whole is ErrLarge. loose: it is not still.
	limited, loose bool
	// ahead is set if it is a reading ahead; before is what its earlier batches added.
	ahead  *ahead
	before int64
}

// begin waits for the store, and makes room in it by removing expired snapshots if it is full.
func (t *Timeline) begin(ctx context.Context, agent string) (*writer, error) {
	s, err := t.open(ctx, true)
	if err != nil {
		return nil, err
	}
	limits := t.Limits()
	used, _ := s.Used()
	if limits.StoreBytes > 0 && used >= limits.StoreBytes {
		if err := t.Collect(ctx); err != nil {
			return nil, err
		}
	}
	n, added := t.of(agent)
	switch {
	case n >= maxPerAgent:
		return nil, api.Errorf(api.CodeQuota, "agent %s has %d snapshots, which is the limit", agent, n).WithHint(limitHint)
	case limits.AgentBytes > 0 && added >= limits.AgentBytes:
		return nil, api.Errorf(api.CodeQuota, "the snapshots of agent %s have added %d MB, which is the limit", agent, added>>20).WithHint(limitHint)
	}
	b, err := s.Begin(ctx, limits.StoreBytes)
	if err != nil {
		return nil, api.Errorf(api.CodeTimeout, "another snapshot of workspace %s is being made: %w", t.Workspace, err).WithHint("try again in a moment")
	}
	b.Measure = true
	return &writer{t: t, batch: b, rec: api.Snapshot{Workspace: t.Workspace, Agent: agent, Time: t.Now().UTC()}}, nil
}

// of returns how many snapshots an agent has, and what they added.
func (t *Timeline) of(agent string) (n int, added int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.records {
		if r.Agent == agent && r.Why == api.SnapshotByUser { // makeRoom bounds the others
			n++
			added += r.Added
		}
	}
	return n, added
}

func (w *writer) close() {
	if w.batch == nil {
		return // its next turn did not come
	}
	if err := w.batch.Close(); err != nil {
		w.t.Log.Warn("files of a snapshot that was not made are left", "workspace", w.t.Workspace, "err", err)
	}
}

// scan reads the tree. also is a state whose paths are read even if git ignores them now; nil: none.
func (w *writer) scan(ctx context.Context, tree Tree, also *snapshot.Manifest) error {
	m, left, err := read(ctx, tree, w.rec.Covers, also, w.batch, w.t.Limits().AgentBytes)
	if err != nil {
		return w.t.scanFailed(w.rec.Agent, err)
	}
	w.state, w.rec.LeftOut, w.rec.Branch, w.rec.Commit, w.rec.Ignored = m, left, tree.Branch, tree.Commit, tree.Held.texts
	w.refs(tree)
	w.totals()
	return nil
}

// read returns the part of a tree that a snapshot covers.
func read(ctx context.Context, tree Tree, covers string, also *snapshot.Manifest, sink snapshot.Sink, limit int64) (*snapshot.Manifest, int, error) {
	s := &snapshot.Scan{Root: tree.Root, Exclude: []string{".git"}, Sink: sink, MaxFiles: maxFiles, MaxBytes: limit}
	wanted := func(p string) bool { return also != nil && also.Find(p) != nil }
	switch covers {
	case api.SnapshotFiles:
		s.Skip = func(p string, dir bool) bool { return tree.leaves(p, dir) && !wanted(p) }
	case api.SnapshotDeclared:
		s.Skip = func(p string, dir bool) bool { return !dir && !tree.Declared(p, dir) && !wanted(p) }
	}
	m, err := s.Run(ctx)
	if err != nil {
		return nil, 0, err
	}
	if covers == api.SnapshotDeclared {
		m = withParents(m, func(e *snapshot.Entry) bool { return tree.Declared(e.Path, e.Kind == snapshot.Dir) || wanted(e.Path) })
	}
	return m, s.Left, nil
}

// withParents selects entries and the directories above them.
func withParents(m *snapshot.Manifest, want func(*snapshot.Entry) bool) *snapshot.Manifest {
	keep := map[string]bool{}
	for i := range m.Entries {
		if !want(&m.Entries[i]) {
			continue
		}
		for p := m.Entries[i].Path; p != "." && !keep[p]; p = path.Dir(p) {
			keep[p] = true
		}
	}
	return m.Select(func(e *snapshot.Entry) bool { return keep[e.Path] })
}

// scanFailed returns the error for files that could not be read.
func (t *Timeline) scanFailed(agent string, err error) error {
	limits := t.Limits()
	switch {
	case errors.Is(err, snapshot.ErrTooLarge):
		return api.Errorf(api.CodeTooLarge, "snapshot of agent %s: %w", agent, err).WithHint("delete or ignore large files, or raise snapshots.agent_mb (%d)", limits.AgentBytes>>20)
	case errors.Is(err, cas.ErrFull):
		return api.Errorf(api.CodeQuota, "snapshot of agent %s: %w", agent, err).WithHint(limitHint)
	case errors.Is(err, snapshot.ErrUnsteady):
		return api.Errorf(api.CodeBadState, "snapshot of agent %s: %w", agent, err).WithHint("a program outside of the sandbox writes to it; try again")
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case api.CodeOf(err) != api.CodeInternal:
		return err
	}
	return t.unsaved(agent, err)
}

// unsaved returns the error for a snapshot that could not be written.
func (t *Timeline) unsaved(agent string, err error) error {
	return api.Errorf(api.CodeStateNotSaved, "snapshot of agent %s: %w", agent, err).WithHint("nothing was changed; is the disk full, or damaged?")
}

// list stores the list of files: that of the state, or what differs from the list of an earlier
// checkpoint.
func (w *writer) list(rec *record) error {
	if w.got != nil {
		rec.series = w.got.recorded
		if w.got.from != "" {
			d, err := w.batch.PutBytes(w.got.delta.Encode())
			w.rec.Manifest, rec.Delta = w.got.from, d.String()
			return err
		}
		w.state = w.got.state
		w.totals()
	}
	h, err := w.batch.PutBytes(w.state.Encode())
	w.rec.Manifest = h.String()
	return err
}

func (w *writer) totals() {
	m := w.state
	w.rec.Hash, w.rec.Metadata = m.Content().String(), m.Metadata().String()
	w.rec.Files, w.rec.Links, w.rec.Dirs, w.rec.Bytes = m.Totals()
}

// commit makes the snapshot exist.
func (w *writer) commit(ctx context.Context) error {
	t := w.t
	rec := record{Version: recordVersion}
	if err := w.list(&rec); err != nil {
		return t.scanFailed(w.rec.Agent, err)
	}
	w.keepCommits(ctx)
	w.rec.Added = w.before + w.batch.Added()
	if err := w.batch.Commit(); err != nil {
		return t.scanFailed(w.rec.Agent, err)
	}
	failpoint.Hit("snapshot:stored")
	t.mu.Lock()
	defer t.mu.Unlock()
	var err error
	w.rec.ID, err = t.newID()
	if err == nil && !rec.Loose && IsCheckpoint(w.rec) {
		err = t.expect(w.rec.ID)
	}
	if err == nil {
		rec.Snapshot = w.rec
		err = store.WriteJSON(t.recordFile(w.rec.ID), rec)
	}
	if err != nil {
		return t.unsaved(w.rec.Agent, err)
	}
	t.records[w.rec.ID] = rec
	t.supersede(rec)
	if rec.Loose {
		return nil // it is the state of no moment
	}
	if IsCheckpoint(w.rec) {
		t.record(rec)
		return nil // a checkpoint every minute is no news
	}
	message := fmt.Sprintf("snapshot %s of agent %s", w.rec.ID, w.rec.Agent)
	if w.rec.Hash != "" {
		message += fmt.Sprintf(": %s, content %s", api.Count(w.rec.Files, "file"), w.rec.Hash[:12])
	}
	t.publish(api.Event{Type: api.EventSnapshot, Agent: w.rec.Agent, Message: message,
		Data: map[string]any{"snapshot": w.rec.ID, "workspace": t.Workspace, "hash": w.rec.Hash, "metadata_hash": w.rec.Metadata, "why": w.rec.Why}})
	return nil
}
