package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/failpoint"
)

// Mark is why a checkpoint is made.
type Mark struct {
	// Why is one of the constants api.SnapshotBy; Note is for people.
	Why, Note string
	// Task is the number of the task that begins, else 0.
	Task int
	// Quick makes no checkpoint if all of a large tree must be read: errors.Is(err, ErrLarge).
	Quick bool
	// Still replaces Host.Still; nil does not.
	Still func(ctx context.Context, agent, reason string, act func(context.Context, Tree) error) error
}

// Checkpoint saves what has changed in an agent's files since its last checkpoint, and its index. If
// nothing has, it makes none, and returns the last one and false.
func (t *Timeline) Checkpoint(ctx context.Context, agent string, mark Mark) (api.Snapshot, bool, error) {
	if len(mark.Note) > maxNote {
		return api.Snapshot{}, false, api.Errorf(api.CodeBadRequest, "note has %d bytes: at most %d", len(mark.Note), maxNote)
	}
	if err := t.makeRoom(ctx, agent); err != nil {
		return api.Snapshot{}, false, err
	}
	s, made, err := t.checkpoint(ctx, agent, mark, true)
	if !errors.Is(err, ErrLarge) || mark.Quick {
		return s, made, err
	}
	// All of it is read while the agent works, and then what changed meanwhile.
	loose, err := t.readAhead(ctx, agent, mark)
	if err != nil {
		return api.Snapshot{}, false, err
	}
	s, made, err = t.checkpoint(ctx, agent, mark, false) // unless the set is lost again, what has changed
	return s, made, errors.Join(err, t.forget(loose))
}

// checkpoint makes a checkpoint. With limited it is ErrLarge to read the whole tree.
func (t *Timeline) checkpoint(ctx context.Context, agent string, mark Mark, limited bool) (api.Snapshot, bool, error) {
	w, err := t.begin(ctx, agent)
	if err != nil {
		return api.Snapshot{}, false, err
	}
	defer w.close()
	w.limited = limited
	w.mark(mark)
	still := t.Host.Still
	if mark.Still != nil {
		still = mark.Still
	}
	var c *captured
	err = still(ctx, agent, "its changed files are saved in a checkpoint", func(ctx context.Context, tree Tree) (err error) {
		began := time.Now()
		c, err = w.take(ctx, tree)
		w.rec.StillMS = time.Since(began).Milliseconds()
		return err
	})
	if err != nil {
		return api.Snapshot{}, false, err
	}
	failpoint.Hit("checkpoint:read")
	last, known := t.last(agent)
	if known && !last.Loose && c.nothing && last.Commit == w.rec.Commit && last.IndexStamp == c.recorded.IndexStamp && mark.Task == 0 {
		return last.Snapshot, false, nil
	}
	if err := w.commit(); err != nil {
		return api.Snapshot{}, false, err
	}
	failpoint.Hit("checkpoint:done")
	return w.rec, true, nil
}

func (w *writer) mark(m Mark) {
	w.rec.Why, w.rec.Note, w.rec.Task, w.rec.Covers = m.Why, m.Note, m.Task, api.SnapshotFiles
}

// readAhead saves a tree that is not still, as what the next checkpoint begins with. It returns the
// id of the record.
func (t *Timeline) readAhead(ctx context.Context, agent string, mark Mark) (string, error) {
	w, err := t.begin(ctx, agent)
	if err != nil {
		return "", err
	}
	defer w.close()
	w.loose = true
	w.mark(mark)
	err = t.Host.Read(ctx, agent, func(ctx context.Context, tree Tree) error {
		_, err := w.take(ctx, tree)
		return err
	})
	if err != nil {
		return "", err
	}
	failpoint.Hit("checkpoint:ahead")
	err = w.commit()
	return w.rec.ID, err
}

// take reads what has changed, and the index, for the record.
func (w *writer) take(ctx context.Context, tree Tree) (*captured, error) {
	c, err := w.capture(ctx, tree)
	if err != nil {
		return nil, w.t.scanFailed(w.rec.Agent, err)
	}
	if err := w.index(tree, c); err != nil {
		return nil, w.t.scanFailed(w.rec.Agent, err)
	}
	w.got, w.rec.Branch, w.rec.Commit, w.rec.LeftOut, w.rec.Whole = c, tree.Branch, tree.Commit, c.leftOut, c.whole
	if c.changed != nil {
		all := c.changed.Paths()
		w.rec.ChangedCount = len(all)
		w.rec.Changed = all[:min(len(all), maxChanged)]
	}
	return c, nil
}

// index saves the index of the agent's git, unless the last checkpoint has the same, or it is larger than
// maxIndex.
func (w *writer) index(tree Tree, c *captured) error {
	if tree.Index == nil {
		return nil
	}
	x, err := tree.Index()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	defer x.File.Close()
	c.recorded.IndexStamp = x.Stamp
	if last, ok := w.t.last(w.rec.Agent); ok && last.IndexStamp == x.Stamp && last.Index != "" {
		w.rec.Index = last.Index
		return nil
	}
	fi, err := x.File.Stat()
	if err != nil {
		return fmt.Errorf("its index: %w", err)
	}
	if fi.Size() > maxIndex { // with holes it costs the agent nothing
		return nil
	}
	h, _, err := w.batch.Put(x.File)
	w.rec.Index = h.String()
	return err
}

// makeRoom removes the oldest checkpoints of an agent that are more than it may have.
func (t *Timeline) makeRoom(ctx context.Context, agent string) error {
	keep := t.Limits().Keep
	if s, err := t.open(ctx, true); s == nil || keep <= 0 {
		return err
	}
	t.mu.Lock()
	var all []record
	var added int64
	for _, r := range t.records {
		if r.Agent == agent {
			added += r.Added
			if IsCheckpoint(r.Snapshot) { // a restore's has the only copy of what it replaced
				all = append(all, r)
			}
		}
	}
	t.mu.Unlock()
	slices.SortFunc(all, func(a, b record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) })
	limit := t.Limits().AgentBytes
	for len(all) > 1 && (len(all) >= keep || limit > 0 && added >= limit) {
		if err := t.forget(all[0].ID); err != nil {
			return err
		}
		added -= all[0].Added
		all = all[1:]
	}
	return nil
}

// At returns the snapshot of an agent's that a person means by to: an ID; a duration, for the state
// so long ago; "before task N"; or "" for the last checkpoint.
func (t *Timeline) At(ctx context.Context, agent, to string) (api.Snapshot, error) {
	all, err := t.List(ctx, agent)
	if err != nil {
		return api.Snapshot{}, err
	}
	none := func(format string, args ...any) (api.Snapshot, error) {
		return api.Snapshot{}, api.Errorf(api.CodeNotFound, format, args...).WithHint("polisctl timeline %s lists the checkpoints", agent)
	}
	all = slices.DeleteFunc(all, func(s api.Snapshot) bool { return s.Covers != api.SnapshotFiles && s.ID != to })
	if len(all) == 0 {
		return none("agent %s has no checkpoint", agent)
	}
	if to == "" {
		return all[len(all)-1], nil
	}
	if rest, ok := strings.CutPrefix(to, "before task "); ok {
		for _, s := range slices.Backward(all) {
			if s.Why == api.SnapshotByTask && fmt.Sprint(s.Task) == strings.TrimPrefix(rest, agent+".") {
				return s, nil
			}
		}
		return none("agent %s has no checkpoint from before task %s", agent, api.Shorten(rest, 50))
	}
	if ago, err := time.ParseDuration(to); err == nil && ago >= 0 {
		then := t.Now().Add(-ago)
		for _, s := range slices.Backward(all) {
			if !s.Time.After(then) {
				return s, nil
			}
		}
		return none("agent %s has no checkpoint that is %s old; the oldest is of %s", agent, ago, all[0].Time.Local().Format(time.DateTime))
	}
	for _, s := range all {
		if s.ID == to {
			return s, nil
		}
	}
	return none("agent %s has no checkpoint %q", agent, api.Shorten(to, 50))
}

// Rewind brings files of an agent back to the state that the request names.
func (t *Timeline) Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error) {
	s, err := t.At(ctx, agent, req.To)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	return t.Restore(ctx, s.ID, api.SnapshotRestoreRequest{Paths: req.Paths, DryRun: req.DryRun})
}

// BeforeTask is the mark of a checkpoint before a task, whose ID is the agent's name, a dot and a number.
func BeforeTask(task api.Task) Mark {
	n, _ := strconv.Atoi(task.ID[strings.LastIndexByte(task.ID, '.')+1:]) //nolint:errcheck // without a number it is 0
	return Mark{Why: api.SnapshotByTask, Quick: true, Task: n, Note: api.Shorten(task.Prompt, 100)}
}

// Running returns the agents whose program runs.
func Running(all map[string]api.Status) []string {
	var out []string
	for name, status := range all {
		if status == api.StatusRunning {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out
}

// IsCheckpoint reports whether a snapshot was made by itself, and is only part of the timeline.
func IsCheckpoint(s api.Snapshot) bool {
	return s.Why != api.SnapshotByUser && s.Why != api.SnapshotByRestore
}
