package timeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"polis/daemon/api"
	"polis/internal/failpoint"
)

// Checkpoint saves what has changed in an agent's files since its last checkpoint, and its index. If
// nothing has, it makes none, and returns the last one and false.
func (t *Timeline) Checkpoint(ctx context.Context, agent string, mark Mark) (api.Snapshot, bool, error) {
	s, made, err := t.checkpointNow(ctx, agent, mark)
	if made || err != nil { // where nothing has changed, nothing was written
		t.noteFault(agent, err)
	}
	return s, made, err
}

func (t *Timeline) checkpointNow(ctx context.Context, agent string, mark Mark) (api.Snapshot, bool, error) {
	if len(mark.Note) > maxNote {
		return api.Snapshot{}, false, api.Errorf(api.CodeBadRequest, "note has %d bytes: at most %d", len(mark.Note), maxNote)
	}
	var s api.Snapshot
	var made bool
	err := t.withRoom(ctx, agent, frequent(api.Snapshot{Why: mark.Why}), func() (err error) {
		s, made, err = t.checkpointOnce(ctx, agent, mark)
		return err
	})
	return s, made, err
}

func (t *Timeline) checkpointOnce(ctx context.Context, agent string, mark Mark) (api.Snapshot, bool, error) {
	if err := t.makeRoom(ctx, agent); err != nil {
		return api.Snapshot{}, false, err
	}
	if err := t.awaitAhead(ctx, agent, mark); err != nil {
		return api.Snapshot{}, false, err
	}
	s, made, err := t.checkpoint(ctx, agent, mark, true)
	if !errors.Is(err, ErrLarge) || mark.Quick {
		return s, made, err
	}
	// All of it is read while the agent works, and then what changed meanwhile.
	if err := t.readAhead(ctx, agent); err != nil {
		return api.Snapshot{}, false, err
	}
	return t.checkpoint(ctx, agent, mark, false) // unless the set is lost again, what has changed
}

// checkpoint makes a checkpoint. With limited it is ErrLarge to read the whole tree.
func (t *Timeline) checkpoint(ctx context.Context, agent string, mark Mark, limited bool) (s api.Snapshot, made bool, err error) {
	if mark.Still == nil {
		err = t.Host.Hold(ctx, agent, func(ctx context.Context, still Still) (err error) {
			mark.Still = still
			s, made, err = t.checkpoint(ctx, agent, mark, limited)
			return err
		})
		return s, made, err
	}
	w, err := t.begin(ctx, agent)
	if err != nil {
		return api.Snapshot{}, false, err
	}
	defer w.close()
	w.limited = limited
	w.mark(mark)
	var c *captured
	err = mark.Still(ctx, "its changed files are saved in a checkpoint", func(ctx context.Context, tree Tree) (err error) {
		began := time.Now()
		w.rec.Time = t.Now().UTC() // nothing is written from here on
		c, err = w.take(ctx, tree)
		w.rec.StillMS = time.Since(began).Milliseconds()
		return err
	})
	if err != nil {
		return api.Snapshot{}, false, err
	}
	failpoint.Hit("checkpoint:read")
	if last, same := t.unchanged(w, c); same && !mark.named(last.Snapshot) {
		return last.Snapshot, false, t.refresh(last, c)
	}
	if err := w.commit(ctx); err != nil {
		return api.Snapshot{}, false, err
	}
	failpoint.Hit("checkpoint:done")
	return w.rec, true, nil
}

func (w *writer) mark(m Mark) {
	w.rec.Why, w.rec.Note, w.rec.Task, w.rec.For, w.rec.ByAgent, w.rec.Covers = m.Why, m.Note, m.Task, m.For, m.Why == api.SnapshotByAgent, api.SnapshotFiles
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
	w.got, w.rec.Branch, w.rec.Commit, w.rec.LeftOut, w.rec.Whole, w.rec.Ignored = c, tree.Branch, tree.Commit, c.leftOut, c.whole, tree.Held.texts
	w.refs(tree)
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

// Rewind brings files of an agent back to the state that the request names.
func (t *Timeline) Rewind(ctx context.Context, agent string, req api.RewindRequest) (api.SnapshotRestored, error) {
	s, err := t.At(ctx, agent, req.To)
	if err != nil {
		return api.SnapshotRestored{}, err
	}
	return t.rewind(ctx, s.ID, req, false)
}
