package timeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/snapshot"
	"polis/internal/failpoint"
)

const (
	// maxHashed is the longest list of files, in bytes, of which the hashes are computed for a receipt: about 40,000
	// files. A longer one takes a good part of a second of a processor.
	maxHashed = 4 << 20
	// maxReceipts bounds the checkpoints that wait for their hashes; further receipts have none.
	maxReceipts = 64
	// settleTime bounds the wait until receipts are durable.
	settleTime = 10 * time.Second
)

// unrecorded has an empty file for each checkpoint whose receipt may be missing: polisd can be killed before the hashes
// are computed, or before the receipt is durable.
func (t *Timeline) unrecorded() string { return filepath.Join(t.Dir, "unrecorded") }

// expect notes that a checkpoint needs a receipt. It is called before the record is written.
func (t *Timeline) expect(id string) error {
	if t.Receipt == nil {
		return nil
	}
	file := filepath.Join(t.unrecorded(), id)
	err := os.WriteFile(file, nil, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.Mkdir(t.unrecorded(), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = os.WriteFile(file, nil, 0o600)
		}
	}
	return err
}

// settle removes the notes of receipts that were given to Receipt, when these are durable.
func (t *Timeline) settle(given []string) {
	if t.Settle != nil {
		ctx, cancel := context.WithTimeout(context.Background(), settleTime)
		defer cancel()
		if t.Settle(ctx); ctx.Err() != nil {
			return // they may be written again: twice is better than never
		}
	}
	for _, id := range given {
		if err := os.Remove(filepath.Join(t.unrecorded(), id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Log.Warn("file of an expected receipt not removed; after a restart the receipt is recorded again", "snapshot", id, "err", err)
		}
	}
}

// recordMissing records the checkpoints whose receipts a crash left out. One whose receipt was being written then may be
// recorded twice. t.mu is held, and no checkpoint has been made yet.
func (t *Timeline) recordMissing() error {
	entries, err := os.ReadDir(t.unrecorded())
	if errors.Is(err, fs.ErrNotExist) || t.Receipt == nil {
		return nil
	}
	var missing []record
	for _, e := range entries {
		if r, ok := t.records[e.Name()]; ok {
			missing = append(missing, r)
		} else { // it was never made, or has been removed since
			err = errors.Join(err, os.Remove(filepath.Join(t.unrecorded(), e.Name())))
		}
	}
	slices.SortFunc(missing, func(a, b record) int { return a.Time.Compare(b.Time) })
	for _, r := range missing {
		t.record(r)
	}
	return err
}

// record records a checkpoint. The hashes of its state are computed meanwhile: a task, or a call of a tool, waits for
// checkpoints. t.mu is held.
func (t *Timeline) record(r record) {
	if t.Receipt == nil {
		return
	}
	if len(t.receipts) >= maxReceipts {
		t.Receipt(receipt(r, t.Workspace))
		t.given = append(t.given, r.ID)
	} else {
		t.receipts = append(t.receipts, r)
	}
	if !t.recording {
		t.recording = true
		t.recorded.Go(t.recordAll)
	}
}

// recordAll records what waits, in order.
func (t *Timeline) recordAll() {
	for {
		r, ok := t.nextReceipt()
		if !ok {
			return
		}
		if r.Hash == "" {
			if err := t.hashes(&r); err != nil { // removed already, or damaged: a verification reports that
				t.Log.Debug("hashes of a checkpoint not computed for its receipt", "agent", r.Agent, "snapshot", r.ID, "err", err)
			}
		}
		failpoint.Hit("checkpoint:hashed")
		t.Receipt(receipt(r, t.Workspace))
		t.mu.Lock()
		t.given = append(t.given, r.ID)
		t.mu.Unlock()
	}
}

// nextReceipt returns the next checkpoint that waits. When there is none, the receipts become durable.
func (t *Timeline) nextReceipt() (r record, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.receipts) == 0 {
		if len(t.given) == 0 {
			t.receipts, t.recording = nil, false
			return record{}, false
		}
		given := t.given
		t.given = nil
		t.mu.Unlock()
		t.settle(given)
		t.mu.Lock()
	}
	r = t.receipts[0]
	t.receipts = t.receipts[1:]
	return r, true
}

// hashes computes the hashes of a state, unless it is very large.
func (t *Timeline) hashes(r *record) error {
	list, err := snapshot.LoadListing(t.objects, r.Manifest)
	if err != nil || list.Size() > maxHashed {
		return err
	}
	m, err := list.Manifest()
	if err != nil {
		return err
	}
	d, err := t.deltaOf(*r)
	if err != nil {
		return err
	}
	m = d.Apply(m)
	r.Hash, r.Metadata = m.Content().String(), m.Metadata().String()
	return nil
}

// receipt is the entry about a checkpoint.
func receipt(r record, workspace string) api.Event {
	data := map[string]any{"snapshot": r.ID, "workspace": workspace, "why": r.Why, "list": r.Manifest}
	for key, text := range map[string]string{"delta": r.Delta, "hash": r.Hash, "metadata_hash": r.Metadata, "for": r.For, "commit": r.Commit} {
		if text != "" {
			data[key] = text
		}
	}
	if r.Task > 0 {
		data["task"] = r.Task
	}
	return api.Event{Type: api.ReceiptCheckpoint, Time: r.Time, Agent: r.Agent, Message: fmt.Sprintf("checkpoint %s of agent %s (%s)", r.ID, r.Agent, r.Why), Data: data}
}
