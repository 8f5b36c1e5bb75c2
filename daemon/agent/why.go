package agent

import (
	"cmp"
	"context"
	"slices"
	"time"

	"polis/daemon/agent/outlinks"
	"polis/daemon/api"
	"polis/daemon/history/task"
)

// maxRecorded is how many different refusals of an agent without a shim are returned, as many as a shim keeps.
const maxRecorded = 64

// Why returns the agent's last refusals, and its state. Those of an agent whose shim does not run are what polisd has
// recorded since the agent was added.
func (m *Manager) Why(ctx context.Context, name string) (api.Refusals, error) {
	a, err := m.lookup(name)
	if err != nil {
		return api.Refusals{}, err
	}
	m.mu.Lock()
	box, mounts, k := m.cfgLive.Sandbox, a.Type.Mounts, a.Kept
	out := api.Refusals{Status: k.Status, StatusReason: k.StatusReason, Recorded: !a.up}
	m.mu.Unlock()
	if at := k.StatusSince; !at.IsZero() {
		out.StatusSince = &at
	}
	if out.Recorded {
		out.Why, out.DamagedFrom, err = m.recorded(ctx, a, k.CreatedAt)
	} else {
		out.Why, err = m.ofShim(ctx, a)
	}
	if err != nil {
		return api.Refusals{}, err
	}
	for _, w := range outlinks.Why(m.linksOf(a, box, mounts)) {
		w.Time = m.Now().UTC()
		out.Why = append(out.Why, w)
	}
	return out, nil
}

// ofShim returns what the shim of an agent keeps of what was refused, and who drops its packets now.
func (m *Manager) ofShim(ctx context.Context, a *Agent) ([]api.WhyEntry, error) {
	sh := m.Shims.Dial(a.Name())
	defer sh.Close()
	why, err := sh.Why(ctx)
	if err != nil {
		return nil, err
	}
	return withBlocked(why, m.blocked(a, time.Time{}), m.Now()), nil
}

// recorded returns what the records have of an agent that was added then: its receipts, up to a damaged one, and those
// of its tasks.
func (m *Manager) recorded(ctx context.Context, a *Agent, added time.Time) (why []api.WhyEntry, damaged uint64, err error) {
	tasks, err := m.records(a).List(task.MaxTasks, func(t api.Task) bool { return t.Began != nil && !t.Began.Before(added) })
	if err != nil {
		return nil, 0, err
	}
	var receipts, ofTasks []api.WhyEntry
	if m.Refused != nil {
		if receipts, damaged, err = m.Refused(ctx, a.WS.Name, a.Name(), added); err != nil {
			return nil, 0, err
		}
	}
	for _, t := range tasks {
		ofTasks = append(ofTasks, t.Refused...)
	}
	return mergeRefusals(receipts, ofTasks), damaged, nil
}

// mergeRefusals makes one entry of equal refusals, as a shim does: the newest first. Each refusal is one receipt, or one
// of those that a receipt counts; the record of a task has also what the shim had counted before that task.
func mergeRefusals(receipts, ofTasks []api.WhyEntry) []api.WhyEntry {
	type key struct {
		op, path, holder string
		code             api.Code
	}
	of := func(w api.WhyEntry) key { return key{w.Op, w.Path, w.Holder, w.Code} }
	found := map[key]api.WhyEntry{}
	add := func(w api.WhyEntry, count func(was, now int) int) {
		if w.Probe {
			return
		}
		was, again := found[of(w)]
		if !again {
			found[of(w)] = w
			return
		}
		n, first := count(max(was.Count, 1), max(w.Count, 1)), earlier(firstOf(was), firstOf(w))
		if w.Time.Before(was.Time) {
			w, was = was, w
		}
		w.Count, w.First = n, nil
		if first.Before(w.Time) {
			w.First = &first
		}
		if w.Program == "" {
			w.Program, w.Pid = was.Program, was.Pid
		}
		w.Errno = cmp.Or(w.Errno, was.Errno)
		found[of(w)] = w
	}
	for _, w := range receipts {
		add(w, func(was, now int) int { return was + now })
	}
	for _, w := range ofTasks {
		add(w, func(was, now int) int { return max(was, now) })
	}
	out := make([]api.WhyEntry, 0, len(found))
	for _, w := range found {
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b api.WhyEntry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Holder, b.Holder))
	})
	return out[:min(len(out), maxRecorded)]
}

func firstOf(w api.WhyEntry) time.Time {
	if w.First != nil {
		return *w.First
	}
	return w.Time
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
