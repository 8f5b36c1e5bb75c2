package queue

import (
	"cmp"
	"slices"

	"polis/daemon/api"
)

const (
	// MaxEntries bounds a Queue. There is one entry per agent.
	MaxEntries = 1000
	// MaxPriority and its negative bound priorities.
	MaxPriority = 1000
	// maxEntryTasks bounds the tasks that get the result of an entry.
	maxEntryTasks = 50
)

// Queue is the ordered list of agents whose branches wait for a merge. It is plain
// memory and not safe for concurrent use.
type Queue struct {
	entries []api.QueueEntry
	last    uint64
}

// Load restores a saved queue. An entry that was being merged waits again.
func (q *Queue) Load(entries []api.QueueEntry) {
	for _, e := range entries {
		if len(q.entries) == MaxEntries || q.index(e.Agent) >= 0 {
			continue
		}
		e.State = api.QueueWaiting
		e.Priority = min(max(e.Priority, -MaxPriority), MaxPriority)
		e.ID = cmp.Or(e.ID, MergeID(e))
		q.last = max(q.last, e.Seq)
		q.entries = append(q.entries, e)
	}
	q.sort()
}

// Add appends an agent. An agent that waits already keeps its place, or moves
// forward. An agent that is being merged is queued again, because it may have new
// commits.
func (q *Queue) Add(e api.QueueEntry) (api.QueueEntry, error) {
	if e.Priority > MaxPriority || e.Priority < -MaxPriority {
		return e, api.Errorf(api.CodeBadRequest, "priority = %d: must be from %d to %d", e.Priority, -MaxPriority, MaxPriority)
	}
	i := q.index(e.Agent)
	if i < 0 && len(q.entries) == MaxEntries {
		return e, api.Errorf(api.CodeQuota, "the merge queue is full: %d entries", MaxEntries)
	}
	q.last++
	e.Seq, e.State, e.ID = q.last, api.QueueWaiting, MergeID(e)
	switch {
	case i < 0:
		q.entries = append(q.entries, e)
	case q.entries[i].State == api.QueueWaiting:
		old := q.entries[i]
		e.Seq, e.ID, e.AddedAt, e.Priority = old.Seq, old.ID, old.AddedAt, max(old.Priority, e.Priority)
		e.Signed = cmp.Or(e.Signed, old.Signed) // if it is for another merge, none is made
		if e.Tasks = append(old.Tasks[:len(old.Tasks):len(old.Tasks)], e.Tasks...); len(e.Tasks) > maxEntryTasks {
			e.Tasks = e.Tasks[len(e.Tasks)-maxEntryTasks:]
		}
		q.entries[i] = e
	default:
		q.entries[i] = e
	}
	q.sort()
	return e, nil
}

// Remove takes an agent out; it reports whether it was in.
func (q *Queue) Remove(agent string) bool {
	i := q.index(agent)
	if i >= 0 {
		q.entries = slices.Delete(q.entries, i, i+1)
	}
	return i >= 0
}

// Prioritize gives an agent another priority.
func (q *Queue) Prioritize(agent string, priority int) error {
	i := q.index(agent)
	if i < 0 {
		return api.Errorf(api.CodeNotFound, "agent %s is not in the merge queue", agent).WithHint("polisctl queue lists the agents that are; polisctl queue add %s adds it", agent)
	}
	if priority > MaxPriority || priority < -MaxPriority {
		return api.Errorf(api.CodeBadRequest, "priority = %d: must be from %d to %d", priority, -MaxPriority, MaxPriority)
	}
	q.entries[i].Priority = priority
	q.sort()
	return nil
}

// Next marks the first n that can be merged together as being merged, and returns them.
func (q *Queue) Next(n int) []api.QueueEntry {
	var out []api.QueueEntry
	for i, e := range q.entries {
		if len(out) == n || len(out) > 0 && e.NoCheck != out[0].NoCheck {
			break
		}
		q.entries[i].State = api.QueueMerging
		out = append(out, q.entries[i])
	}
	return out
}

// Mark changes the state of an entry, if it is still the same.
func (q *Queue) Mark(seq uint64, s api.QueueState) {
	for i := range q.entries {
		if q.entries[i].Seq == seq {
			q.entries[i].State = s
		}
	}
}

// Done takes an entry out, if it is still the same.
func (q *Queue) Done(seq uint64) {
	q.entries = slices.DeleteFunc(q.entries, func(e api.QueueEntry) bool { return e.Seq == seq })
}

// Has reports whether the entry is still in the queue.
func (q *Queue) Has(seq uint64) bool {
	return slices.ContainsFunc(q.entries, func(e api.QueueEntry) bool { return e.Seq == seq })
}

// List returns the entries in their order.
func (q *Queue) List() []api.QueueEntry { return slices.Clone(q.entries) }

func (q *Queue) index(agent string) int {
	return slices.IndexFunc(q.entries, func(e api.QueueEntry) bool { return e.Agent == agent })
}

func (q *Queue) sort() {
	slices.SortStableFunc(q.entries, func(a, b api.QueueEntry) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Seq, b.Seq))
	})
}
