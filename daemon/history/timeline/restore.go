package timeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
	"polis/daemon/store"
	"polis/internal/failpoint"
)

const (
	// undoTime bounds bringing back what a failed restore has changed.
	undoTime = 25 * time.Second
	// undoShare is the part of the time of Host.Still that is left for it.
	undoShare = 15 * time.Second
)

// intent is the note of a restore that is about to change files.
type intent struct {
	Agent    string   `json:"agent"`
	Snapshot string   `json:"snapshot"`
	Paths    []string `json:"paths,omitempty"`
	Branch   bool     `json:"branch,omitempty"`
}

func (t *Timeline) intents() string                { return filepath.Join(t.Dir, "restoring") }
func (t *Timeline) intentFile(agent string) string { return filepath.Join(t.intents(), agent+".json") }

// Restore brings the files of a snapshot's agent back to its state: all that the snapshot covers, or
// only some paths. It moves no branch, and leaves alone what the snapshot does not cover. The state
// before is a snapshot of its own, so a restore can be undone. If another agent has the lease of a
// path, nothing is changed.
func (t *Timeline) Restore(ctx context.Context, id string, req api.SnapshotRestoreRequest) (api.SnapshotRestored, error) {
	return t.restore(ctx, id, req, restorer{})
}

// restore is Restore with the options of r.
func (t *Timeline) restore(ctx context.Context, id string, req api.SnapshotRestoreRequest, r restorer) (out api.SnapshotRestored, err error) {
	rec, goal, err := t.goal(ctx, id)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	defer t.pin(id)() // what makes room for the state before must not be what is restored
	if err := checkPaths(req.Paths); err != nil {
		return api.SnapshotRestored{}, err
	}
	var unwritable error
	if !req.DryRun {
		if unwritable = t.Host.Writable(ctx, rec.Agent); unwritable != nil && (r.again || api.CodeOf(unwritable) != api.CodeBadState) {
			return api.SnapshotRestored{}, unwritable
		}
	}
	// What forbids the restore itself comes before what only a stop of the agent permits: a stop would change nothing.
	r.probe = unwritable != nil
	r.t, r.id, r.goal, r.req, r.ignored = t, id, goal, req, rec.Ignored
	err = t.withRoom(ctx, rec.Agent, r.own, func() error { // a full store is an error before anything is changed
		return t.Host.Hold(ctx, rec.Agent, func(ctx context.Context, still Still) (err error) {
			out, err = r.held(ctx, rec, still)
			return err
		})
	})
	if err == nil && unwritable != nil {
		return api.SnapshotRestored{}, unwritable
	}
	return out, err
}

// held restores an agent that is held.
func (r *restorer) held(ctx context.Context, rec api.Snapshot, still Still) (api.SnapshotRestored, error) {
	t, id, req := r.t, r.id, r.req
	w, err := t.begin(ctx, rec.Agent)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	defer w.close()
	w.batch.Verify = true // the state before is nowhere else when the files are changed
	w.rec.Why, w.rec.Note, w.rec.Covers, w.rec.ByAgent = api.SnapshotByRestore, "before "+id+" was restored", rec.Covers, r.own
	r.w = w
	err = still(ctx, "its files are restored from a snapshot", r.run)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	out := api.SnapshotRestored{ID: id, Agent: rec.Agent, Before: w.rec.ID, Changed: len(r.steps), Paths: []string{}, StillMS: r.still.Milliseconds(), Refs: r.moves}
	seen := map[string]bool{}
	for i := range r.steps {
		if p := r.steps[i].Path(); !seen[p] && len(out.Paths) < maxNames {
			seen[p] = true
			out.Paths = append(out.Paths, p)
		}
	}
	if (len(r.steps) > 0 || r.moving()) && !req.DryRun && !r.probe {
		t.publish(api.Event{Type: api.EventSnapshotRestored, Agent: rec.Agent, Message: fmt.Sprintf("%s of agent %s restored from snapshot %s; the state before is snapshot %s", api.Count(out.Changed, "path"), rec.Agent, id, out.Before),
			Data: map[string]any{"snapshot": id, "before": out.Before, "workspace": t.Workspace, "changed": out.Changed, "refs": out.Refs}})
	}
	return out, nil
}

// restorer is one Restore.
type restorer struct {
	t    *Timeline
	w    *writer
	id   string
	goal *goal
	// now and want are the states before and after: both whole, or both without what is the same.
	now, want *snapshot.Manifest
	// ignored are the patterns of files that git ignores and the goal has.
	ignored []string
	req     api.SnapshotRestoreRequest
	// again: files can have changed already, below a view that has not been notified. own: the agent itself
	// asks, and its rules hold.
	// probe: nothing is changed, and whatever forbids it is an error.
	again, own, probe bool
	// branch: HEAD, the index and the refs are brought back, too. moves are how.
	branch bool
	to     record
	moves  []api.RefMoved
	steps  []snapshot.Step
	still  time.Duration
}

// run restores while the agent is still.
func (r *restorer) run(ctx context.Context, tree Tree) (err error) {
	began := time.Now()
	defer func() { r.still = time.Since(began) }()
	t := r.t
	if err := r.compare(ctx, tree); err != nil {
		return err
	}
	if err := r.spare(tree); err != nil {
		return err
	}
	if r.steps, err = snapshot.Plan(r.now, r.want, r.req.Paths); err != nil {
		return r.failed(err)
	}
	if err := r.permitted(tree); err != nil {
		return err
	}
	if r.again {
		defer r.changed(ctx, tree)
	}
	if err := r.planRefs(ctx, tree); err != nil {
		return err
	}
	if len(r.steps) == 0 && !r.moving() || r.req.DryRun {
		if r.again {
			return r.skip(ctx, tree)
		}
		return nil
	}
	if err := r.available(); err != nil {
		return err
	}
	release, err := t.Host.Lock(ctx, r.w.rec.Agent, r.leases(tree))
	if err != nil {
		return err
	}
	if r.probe {
		release()
		return nil
	}
	if err := r.prepare(ctx, tree); err != nil {
		release()
		return err
	}
	failpoint.Hit("restore:noted")
	actx, cancel := ctx, context.CancelFunc(func() {})
	if end, ok := ctx.Deadline(); ok {
		late := api.Errorf(api.CodeTimeout, "restore snapshot %s: %s that differ were not written in time", r.id, api.Count(len(r.steps), "path")).
			WithHint("nothing was changed; restore fewer paths at a time, or try again when the disk is less busy")
		actx, cancel = context.WithDeadlineCause(ctx, end.Add(-undoShare), late)
	}
	err = snapshot.Apply(actx, tree.Root, r.steps, t.objects, tree.Owner)
	cancel()
	if err == nil && r.moving() {
		err = r.moveRefs(ctx, tree)
	} else if err == nil {
		err = r.skip(ctx, tree)
	}
	if err != nil {
		err = r.undo(ctx, tree, err)
		release()
	}
	failpoint.Hit("restore:applied")
	r.changed(ctx, tree)
	if rerr := os.Remove(t.intentFile(r.w.rec.Agent)); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
		t.Log.Warn("record of a finished restoration not removed", "agent", r.w.rec.Agent, "err", rerr)
	}
	return err
}

// leases returns the paths that take a lease: files and links that git does not ignore.
func (r *restorer) leases(tree Tree) []string {
	var out []string
	for i := range r.steps {
		e := r.steps[i].Make
		if e == nil {
			e = r.steps[i].Remove
		}
		if e.Kind != snapshot.Dir && !tree.Ignored(e.Path, false) {
			out = append(out, e.Path)
		}
	}
	return out
}

// prepare saves the state before and notes what follows.
func (r *restorer) prepare(ctx context.Context, tree Tree) error {
	if err := r.w.commit(ctx); err != nil {
		return err
	}
	t := r.t
	if tree.Note != nil {
		var paths []string
		for i := range r.steps {
			paths = append(paths, r.steps[i].Path())
		}
		if err := tree.Note(ctx, paths); err != nil {
			return err
		}
	}
	err := os.Mkdir(t.intents(), 0o700)
	if err == nil || errors.Is(err, fs.ErrExist) {
		err = store.WriteJSON(t.intentFile(r.w.rec.Agent), intent{r.w.rec.Agent, r.id, r.req.Paths, r.branch})
	}
	if err != nil {
		return t.unsaved(r.w.rec.Agent, err)
	}
	return nil
}

// undo brings back the state before, after an error of Apply.
func (r *restorer) undo(ctx context.Context, tree Tree, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	err := r.failed(cause)
	steps, uerr := r.back(ctx, tree)
	if uerr == nil {
		uerr = snapshot.Apply(ctx, tree.Root, steps, r.t.objects, tree.Owner)
	}
	if uerr != nil {
		r.t.Log.Error("state before a failed restoration not brought back", "agent", r.w.rec.Agent, "snapshot", r.w.rec.ID, "err", uerr)
		return api.Errorf(api.CodeOf(err), "%w; some files are restored and some are not: %v; the state before is snapshot %s", err, uerr, r.w.rec.ID) //nolint:errorlint // one cause is kept
	}
	return err
}

// failed returns the error for a restore that was not done.
func (r *restorer) failed(err error) error {
	switch {
	case errors.Is(err, snapshot.ErrNoPath):
		return api.Errorf(api.CodeNotFound, "restore snapshot %s: %w", r.id, err).WithHint(filesHint, r.id)
	case errors.Is(err, snapshot.ErrInTheWay):
		return api.Errorf(api.CodeBadState, "restore snapshot %s: %w", r.id, err).WithHint("nothing was changed; move the file away, or restore other paths")
	case errors.Is(err, cas.ErrCorrupt), errors.Is(err, cas.ErrMissing):
		return corrupt(r.id, err)
	case api.CodeOf(err) == api.CodeTimeout:
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	}
	return r.t.unsaved(r.w.rec.Agent, fmt.Errorf("restore snapshot %s: %w", r.id, err))
}
