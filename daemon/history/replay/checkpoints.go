package replay

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/history/receipt"
)

// checkpoint applies a checkpoint of an agent. Of all agents together the last maxItems are kept: older ones are
// hardly stored any more.
func (s *state) checkpoint(a *agent, r *receipt.Receipt, d *data) {
	c := api.ReplayedCheckpoint{ID: d.Snapshot, Why: d.Why, List: d.List, Delta: d.Delta, Hash: d.Hash, Metadata: d.Metadata, Entry: r.Seq}
	a.Checkpoint = &c
	if len(s.checkpoints) >= 2*maxItems {
		s.checkpoints = append(s.checkpoints[:0], s.checkpoints[maxItems:]...)
		s.lack("checkpoints: only the last %d are compared with what is stored", maxItems)
	}
	s.checkpoints = append(s.checkpoints, c)
}

// checkpoints compares those that are still stored, by what they are stored by, and the last one of each agent with its
// contents. Limits remove checkpoints without an entry.
func (c *check) checkpoints(ctx context.Context) error {
	if c.Snapshots == nil {
		return nil
	}
	last := map[string]bool{}
	for _, a := range c.out.Agents {
		if a.Checkpoint != nil {
			last[a.Checkpoint.ID] = true
		}
	}
	for i := range c.state.checkpoints {
		p := &c.state.checkpoints[i]
		list, delta, ok, err := c.Snapshots.Lists(ctx, p.ID)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		what := "checkpoint " + p.ID
		c.same(what, "files "+p.List+" "+p.Delta, "files "+list+" "+delta)
		if !last[p.ID] || list != p.List || delta != p.Delta {
			continue
		}
		v, err := c.Snapshots.Verify(ctx, p.ID)
		if err != nil {
			return err
		}
		c.same(what, "intact", soundness(v))
	}
	return nil
}
