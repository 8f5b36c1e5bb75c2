package timeline

import (
	"context"
	"errors"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
)

// maxRoom is how often room is made for one record: others can have taken it meanwhile.
const maxRoom = 4

// withRoom calls attempt, and again as long as the store is full and the agent gets room (victims). own: the agent makes it
// itself, or it is made often.
func (t *Timeline) withRoom(ctx context.Context, agent string, own bool, attempt func() error) error {
	for range maxRoom {
		err := attempt()
		var full *cas.FullError
		if !errors.As(err, &full) {
			return err
		}
		made, rerr := t.shareRoom(ctx, wish{agent, own, full.Missing()})
		if rerr != nil {
			t.Log.Warn("no room made in the store of snapshots", "workspace", t.Workspace, "agent", agent, "err", rerr)
		}
		if !made {
			return err
		}
	}
	return attempt()
}

// shareRoom removes what no record needs, and the checkpoints that make room for a wish if that is not enough. It reports
// whether there is room.
func (t *Timeline) shareRoom(ctx context.Context, w wish) (bool, error) {
	before, _ := t.objects.Used()
	if err := t.Collect(ctx); err != nil {
		return false, err
	}
	used, _ := t.objects.Used()
	if w.bytes -= before - used; w.bytes <= 0 {
		return true, nil
	}
	all, err := t.holdings()
	if err != nil {
		return false, err
	}
	ids, freed := victims(all, t.Limits().StoreBytes, w)
	if len(ids) == 0 {
		return false, nil
	}
	of := map[string]int{}
	for _, id := range ids {
		s, _, err := t.Find(ctx, id)
		if err == nil {
			err = t.forget(id)
		}
		if err != nil {
			return false, err
		}
		of[s.Agent]++
	}
	t.Log.Info("checkpoints removed to share a full store", "workspace", t.Workspace, "agent", w.agent, "checkpoints", of, "bytes", freed)
	return true, t.Collect(ctx)
}

// holdings returns what each record keeps in the store. It is an error if one cannot be read: then no content is removed.
func (t *Timeline) holdings() ([]holding, error) {
	t.mu.Lock()
	records := make([]record, 0, len(t.records))
	for _, r := range t.records {
		r.InUse = r.InUse || t.pins[r.ID] > 0
		records = append(records, r)
	}
	unread := len(t.unread)
	t.mu.Unlock()
	if unread > 0 {
		return nil, t.unreadable(unread)
	}
	l := lists{t: t, sizes: map[cas.Hash]int64{}, of: map[string]*contents{}}
	out := make([]holding, 0, len(records))
	for _, r := range records {
		h := holding{id: r.ID, agent: r.Agent, at: r.Time, kind: kindOf(r)}
		for _, s := range []struct {
			hash    string
			entries func() ([]snapshot.Entry, error)
		}{{r.Manifest, func() ([]snapshot.Entry, error) {
			m, err := t.stateOf(r.Manifest, nil)
			if err != nil {
				return nil, err
			}
			return m.Entries, nil
		}}, {r.Delta, func() ([]snapshot.Entry, error) {
			d, err := t.deltaOf(r)
			if err != nil {
				return nil, err
			}
			return d.Entries, nil
		}}, {r.Index, nil}} {
			c, err := l.get(s.hash, s.entries)
			if err != nil {
				return nil, corrupt(r.ID, err)
			}
			if c != nil {
				h.lists = append(h.lists, c)
			}
		}
		out = append(out, h)
	}
	return out, nil
}

func kindOf(r record) int {
	switch {
	case r.Kept, r.InUse:
	case IsCheckpoint(r.Snapshot) && frequent(r.Snapshot):
		return often
	case IsCheckpoint(r.Snapshot):
		return marked
	case r.Why == api.SnapshotByRestore && r.ByAgent:
		return rewound
	}
	return fixed
}

// lists are the contents that manifests, deltas and indexes lead to, each read once.
type lists struct {
	t     *Timeline
	sizes map[cas.Hash]int64 // of what has no size in its entry
	of    map[string]*contents
}

// get returns a list that is stored by a hash, with itself; nil for "". With no entries it is a single content.
func (l *lists) get(hash string, entries func() ([]snapshot.Entry, error)) (*contents, error) {
	if hash == "" || l.of[hash] != nil {
		return l.of[hash], nil
	}
	h, err := cas.Parse(hash)
	if err != nil {
		return nil, err
	}
	c := &contents{all: []content{{h, l.size(h)}}}
	if entries != nil {
		all, err := entries()
		if err != nil {
			return nil, err
		}
		for i := range all {
			if e := &all[i]; !e.Hash.IsZero() {
				c.all = append(c.all, content{e.Hash, e.Size})
			}
			if a := all[i].Attrs; !a.IsZero() {
				c.all = append(c.all, content{a, l.size(a)})
			}
		}
	}
	l.of[hash] = c
	return c, nil
}

func (l *lists) size(h cas.Hash) int64 {
	n, ok := l.sizes[h]
	if !ok {
		n = l.t.objects.Size(h)
		l.sizes[h] = n
	}
	return n
}
