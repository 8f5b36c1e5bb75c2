package timeline

import (
	"cmp"
	"context"
	"slices"

	"polis/daemon/api"
)

// maxOwn is how many of its own rewinds an agent can undo.
const maxOwn = 50

// makeRoom removes the oldest checkpoints of an agent that are more than it may have: of the frequent
// ones if they are half of all, so that many calls of tools leave those before tasks and merges.
func (t *Timeline) makeRoom(ctx context.Context, agent string) error {
	keep := t.Limits().Keep
	if s, err := t.open(ctx, true); err != nil || s == nil || keep <= 0 {
		return err
	}
	t.unused(ctx, agent)
	t.mu.Lock()
	var all, own []record
	var added int64
	for _, r := range t.records {
		if r.Agent != agent {
			continue
		}
		added += r.Added
		switch {
		case r.Kept, r.InUse, t.pins[r.ID] > 0:
		case IsCheckpoint(r.Snapshot):
			all = append(all, r)
		case r.Why == api.SnapshotByRestore && r.ByAgent: // another restore's has the only copy of what it replaced
			own = append(own, r)
		}
	}
	t.mu.Unlock()
	byTime := func(a, b record) int { return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.ID, b.ID)) }
	slices.SortFunc(all, byTime)
	slices.SortFunc(own, byTime)
	for ; len(own) >= maxOwn; own = own[1:] {
		if err := t.forget(own[0].ID); err != nil {
			return err
		}
		added -= own[0].Added
	}
	limit := t.Limits().AgentBytes
	for len(all) > 1 && (len(all) >= keep || limit > 0 && added >= limit) {
		i := oldest(all)
		if err := t.forget(all[i].ID); err != nil {
			return err
		}
		added -= all[i].Added
		all = slices.Delete(all, i, i+1)
	}
	return nil
}

// oldest returns which of several checkpoints is removed. The last one stays: the next continues it.
func oldest(all []record) int {
	first, n := 0, 0
	for i := range all[:len(all)-1] {
		if frequent(all[i].Snapshot) {
			if n++; n == 1 {
				first = i
			}
		}
	}
	if 2*n >= len(all) {
		return first
	}
	return 0
}
