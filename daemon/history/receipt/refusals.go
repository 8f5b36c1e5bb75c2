package receipt

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"golang.org/x/sync/semaphore"

	"polis/daemon/api"
)

// maxRefusals bounds how many receipts Refusals returns: the last ones.
const maxRefusals = 10000

// readers bounds the logs that Refusals reads at a time, those of all workspaces together: each is read whole, and who may
// read the API may call it as often as they like.
var readers = semaphore.NewWeighted(2)

// Refusals returns what an agent was refused since then, as its log has it, the oldest first. broken is the first
// entry of the log that does not match its hash: nothing after it is read. It waits for its turn until ctx ends.
func (s *Store) Refusals(ctx context.Context, agent string, since time.Time) (out []api.WhyEntry, broken *api.BrokenReceipt, err error) {
	if agent == "" {
		return nil, nil, nil
	}
	if err := readers.Acquire(ctx, 1); err != nil {
		return nil, nil, err
	}
	defer readers.Release(1)
	broken, err = s.Each(ctx, func(log string) bool { return log == agent }, func(_ string, r *Receipt) error {
		if r.Agent != agent || r.Time.Before(since) || r.Type != api.EventDenied && r.Type != api.EventLockConflict {
			return nil
		}
		if out = append(out, r.refusal()); len(out) >= 2*maxRefusals {
			out = append(out[:0], out[len(out)-maxRefusals:]...)
		}
		return nil
	})
	return out[max(len(out)-maxRefusals, 0):], broken, err
}

// refusal is the entry as agents why has it.
func (r *Receipt) refusal() api.WhyEntry {
	var d struct {
		Op, Path, Others, Holder, Hint, Program, Rule, Shown, By, Reason, Errno string
		Pid, Count                                                              int
		First                                                                   *time.Time
	}
	if err := json.Unmarshal(r.Data, &d); err != nil { // of an earlier version, which named something else so
		return api.WhyEntry{Time: r.Time, Code: r.Code, Count: r.Count, Hint: r.Message}
	}
	n := max(r.Count, 1) * max(d.Count, 1)
	if n == 1 {
		n = 0
	}
	return api.WhyEntry{Time: r.Time, Op: d.Op, Path: cmp.Or(d.Others, d.Path), Code: r.Code, Shown: d.Shown, Rule: d.Rule, Errno: d.Errno, Holder: d.Holder,
		Hint: d.Hint, By: d.By, Reason: d.Reason, Count: n, First: d.First, Pid: d.Pid, Program: d.Program}
}
