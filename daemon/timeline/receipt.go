package timeline

import (
	"fmt"

	"polis/daemon/api"
	"polis/daemon/snapshot"
)

const (
	// maxHashed is the longest list of files, in bytes, of which the hashes are computed for a receipt: about 40,000
	// files. A longer one takes a good part of a second of a processor.
	maxHashed = 4 << 20
	// maxReceipts bounds the checkpoints that wait for their hashes; further receipts have none.
	maxReceipts = 64
)

// record records a checkpoint. The hashes of its state are computed meanwhile: a task, or a call of a tool, waits for
// checkpoints. t.mu is held.
func (t *Timeline) record(r record) {
	if t.Receipt == nil {
		return
	}
	if len(t.receipts) >= maxReceipts {
		t.Receipt(receipt(r, t.Workspace))
		return
	}
	t.receipts = append(t.receipts, r)
	if !t.recording {
		t.recording = true
		t.recorded.Go(t.recordAll)
	}
}

// recordAll records what waits, in order.
func (t *Timeline) recordAll() {
	for {
		t.mu.Lock()
		if len(t.receipts) == 0 {
			t.receipts, t.recording = nil, false
			t.mu.Unlock()
			return
		}
		r := t.receipts[0]
		t.receipts = t.receipts[1:]
		t.mu.Unlock()
		if r.Hash == "" {
			if err := t.hashes(&r); err != nil { // removed already, or damaged: a verification reports that
				t.Log.Debug("hashes of a checkpoint not computed for its receipt", "agent", r.Agent, "snapshot", r.ID, "err", err)
			}
		}
		t.Receipt(receipt(r, t.Workspace))
	}
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
