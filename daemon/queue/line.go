package queue

import (
	"cmp"
	"slices"

	"polis/daemon/api"
)

const (
	// MaxEntries bounds a line. There is one entry per agent.
	MaxEntries = 1000
	// MaxPriority and its negative bound priorities.
	MaxPriority = 1000
)

// Line is who waits, in order. It is plain memory and not safe for concurrent use.
type Line struct {
	entries []api.QueueEntry
	last    uint64
}

// Load makes the line what it was. What was being merged waits again.
func (l *Line) Load(entries []api.QueueEntry) {
	for _, e := range entries {
		if len(l.entries) == MaxEntries || l.index(e.Agent) >= 0 {
			continue
		}
		e.State = api.QueueWaiting
		e.Priority = min(max(e.Priority, -MaxPriority), MaxPriority)
		l.last = max(l.last, e.Seq)
		l.entries = append(l.entries, e)
	}
	l.sort()
}

// Add puts an agent in the line. One that waits already keeps its place, or
// gets a better one. One that is being merged is merged once more: it may have more
// commits now.
func (l *Line) Add(e api.QueueEntry) (api.QueueEntry, error) {
	if e.Priority > MaxPriority || e.Priority < -MaxPriority {
		return e, api.Errorf(api.CodeBadRequest, "priority = %d: must be from %d to %d", e.Priority, -MaxPriority, MaxPriority)
	}
	i := l.index(e.Agent)
	if i < 0 && len(l.entries) == MaxEntries {
		return e, api.Errorf(api.CodeQuota, "the merge queue is full: %d entries", MaxEntries)
	}
	l.last++
	e.Seq, e.State = l.last, api.QueueWaiting
	switch {
	case i < 0:
		l.entries = append(l.entries, e)
	case l.entries[i].State == api.QueueWaiting:
		old := l.entries[i]
		e.Seq, e.AddedAt, e.Priority = old.Seq, old.AddedAt, max(old.Priority, e.Priority)
		l.entries[i] = e
	default:
		l.entries[i] = e
	}
	l.sort()
	return e, nil
}

// Remove takes an agent out; it says whether it was in.
func (l *Line) Remove(agent string) bool {
	i := l.index(agent)
	if i >= 0 {
		l.entries = slices.Delete(l.entries, i, i+1)
	}
	return i >= 0
}

// Prioritize gives an agent another priority.
func (l *Line) Prioritize(agent string, priority int) error {
	i := l.index(agent)
	if i < 0 {
		return api.Errorf(api.CodeNotFound, "agent %s is not in the merge queue", agent).WithHint("polisctl queue shows who is; polisctl queue add %s", agent)
	}
	if priority > MaxPriority || priority < -MaxPriority {
		return api.Errorf(api.CodeBadRequest, "priority = %d: must be from %d to %d", priority, -MaxPriority, MaxPriority)
	}
	l.entries[i].Priority = priority
	l.sort()
	return nil
}

// Next marks the first n that can go together as being merged, and returns them.
func (l *Line) Next(n int) []api.QueueEntry {
	var out []api.QueueEntry
	for i, e := range l.entries {
		if len(out) == n || len(out) > 0 && e.NoCheck != out[0].NoCheck {
			break
		}
		l.entries[i].State = api.QueueMerging
		out = append(out, l.entries[i])
	}
	return out
}

// Mark changes the state of an entry, if it is still the same.
func (l *Line) Mark(seq uint64, s api.QueueState) {
	for i := range l.entries {
		if l.entries[i].Seq == seq {
			l.entries[i].State = s
		}
	}
}

// Done takes an entry out, if it is still the same.
func (l *Line) Done(seq uint64) {
	l.entries = slices.DeleteFunc(l.entries, func(e api.QueueEntry) bool { return e.Seq == seq })
}

// Has says whether the entry is still in the line.
func (l *Line) Has(seq uint64) bool {
	return slices.ContainsFunc(l.entries, func(e api.QueueEntry) bool { return e.Seq == seq })
}

// List returns the entries in their order.
func (l *Line) List() []api.QueueEntry { return slices.Clone(l.entries) }

func (l *Line) index(agent string) int {
	return slices.IndexFunc(l.entries, func(e api.QueueEntry) bool { return e.Agent == agent })
}

func (l *Line) sort() {
	slices.SortStableFunc(l.entries, func(a, b api.QueueEntry) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Seq, b.Seq))
	})
}
