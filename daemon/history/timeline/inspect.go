package timeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
)

// Files returns the entries of a snapshot.
func (t *Timeline) Files(ctx context.Context, id string) ([]api.SnapshotFile, error) {
	_, m, err := t.get(ctx, id)
	if err != nil {
		return nil, err
	}
	out := make([]api.SnapshotFile, len(m.Entries))
	for i := range m.Entries {
		out[i] = *entry(&m.Entries[i])
	}
	return out, nil
}

// entry returns an entry as the API has it; nil for nil.
func entry(e *snapshot.Entry) *api.SnapshotFile {
	if e == nil {
		return nil
	}
	f := &api.SnapshotFile{Path: e.Path, Size: e.Size}
	switch e.Kind {
	case snapshot.Dir:
		f.Kind = "directory"
	case snapshot.Link:
		f.Kind = "link"
	default:
		f.Kind = "file"
	}
	if e.Kind != snapshot.Link {
		f.Mode = fmt.Sprintf("%04o", e.Mode)
	}
	if !e.Hash.IsZero() {
		f.Hash = e.Hash.String()
	}
	return f
}

const filesHint = "polisctl snapshot show %s --files"

// Content writes a file of a snapshot, or the target of a link, to w. If it is damaged, the error
// comes after a part of it.
func (t *Timeline) Content(ctx context.Context, id, path string, w io.Writer) error {
	_, m, err := t.get(ctx, id)
	if err != nil {
		return err
	}
	e := m.Find(path)
	switch {
	case e == nil:
		return api.Errorf(api.CodeNotFound, "snapshot %s has no file %q", id, api.Shorten(path, 200)).WithHint(filesHint, id)
	case e.Kind == snapshot.Dir:
		return api.Errorf(api.CodeBadRequest, "%q is a directory in snapshot %s", api.Shorten(path, 200), id).WithHint(filesHint, id)
	}
	if _, err := t.objects.Copy(w, e.Hash); err != nil {
		if errors.Is(err, cas.ErrCorrupt) || errors.Is(err, cas.ErrMissing) {
			return corrupt(id, err)
		}
		return err
	}
	return nil
}

// Diff returns how another snapshot differs from one, or how the agent's files differ now if to is
// "".
func (t *Timeline) Diff(ctx context.Context, from, to string) (api.SnapshotDiff, error) {
	rec, a, err := t.get(ctx, from)
	if err != nil {
		return api.SnapshotDiff{}, err
	}
	var b *snapshot.Manifest
	if to != "" {
		other, m, err := t.get(ctx, to)
		if err != nil {
			return api.SnapshotDiff{}, err
		}
		if other.Covers != rec.Covers {
			return api.SnapshotDiff{}, api.Errorf(api.CodeBadRequest, "snapshot %s covers %q, and snapshot %s covers %q: they cannot be compared", from, rec.Covers, to, other.Covers).WithHint("polisctl snapshot list")
		}
		b = m
	} else {
		if b, err = t.present(ctx, rec.Agent, rec.Covers, a); err != nil {
			return api.SnapshotDiff{}, err
		}
	}
	return api.SnapshotDiff{From: from, To: to, Hash: b.Content().String(), Changes: changes(a, b)}, nil
}

// present reads the files of an agent as they are now, also those that were changed behind its view.
func (t *Timeline) present(ctx context.Context, agent, covers string, also *snapshot.Manifest) (m *snapshot.Manifest, err error) {
	err = t.Host.Still(ctx, agent, "its files are compared with a snapshot", func(ctx context.Context, tree Tree) error {
		if m, _, err = read(ctx, tree, covers, also, snapshot.Hashes{}, t.Limits().AgentBytes); err != nil {
			return t.scanFailed(agent, err)
		}
		return nil
	})
	return m, err
}

// Compare is Verify, and compares the files of an agent with an intact snapshot; "" is the agent of
// the snapshot.
func (t *Timeline) Compare(ctx context.Context, id, agent string) (api.SnapshotCheck, error) {
	out, err := t.Verify(ctx, id)
	if err != nil || !out.Intact {
		return out, err
	}
	rec, m, err := t.get(ctx, id)
	if err != nil {
		return out, err
	}
	out.Against = cmp.Or(agent, rec.Agent)
	now, err := t.present(ctx, out.Against, rec.Covers, m)
	if err != nil {
		return out, err
	}
	all := changes(m, now)
	out.Changed, out.Changes = len(all), all[:min(len(all), maxNames)]
	return out, nil
}

// changes returns how a state differs from an earlier one.
func changes(a, b *snapshot.Manifest) []api.SnapshotChange {
	out := []api.SnapshotChange{}
	for _, c := range snapshot.Diff(a, b) {
		out = append(out, api.SnapshotChange{Path: c.Path, How: c.How, From: entry(c.From), To: entry(c.To)})
	}
	return out
}

// Verify reads everything that a snapshot needs and compares it with its hashes.
func (t *Timeline) Verify(ctx context.Context, id string) (api.SnapshotCheck, error) {
	rec, ok, err := t.Find(ctx, id)
	if err != nil || !ok {
		return api.SnapshotCheck{}, errors.Join(err, notFoundUnless(ok, id))
	}
	out := api.SnapshotCheck{ID: id, Damaged: []string{}}
	damaged := func(format string, args ...any) {
		if len(out.Damaged) < maxNames {
			out.Damaged = append(out.Damaged, fmt.Sprintf(format, args...))
		}
	}
	m, err := t.manifest(rec.ID)
	if err != nil {
		damaged("its list of files: %v", errors.Unwrap(err))
		return out, nil
	}
	if rec.Hash != "" && (m.Content().String() != rec.Hash || m.Metadata().String() != rec.Metadata) {
		damaged("its record: the hashes are not those of its files")
	}
	seen := map[cas.Hash]bool{}
	for i := range m.Entries {
		e := &m.Entries[i]
		for _, h := range []cas.Hash{e.Hash, e.Attrs} {
			if h.IsZero() || seen[h] {
				continue
			}
			if ctx.Err() != nil {
				return out, api.Errorf(api.CodeTimeout, "verify snapshot %s: %w", id, context.Cause(ctx))
			}
			seen[h] = true
			n, err := t.objects.Copy(io.Discard, h)
			if err == nil && h == e.Hash && n != e.Size {
				err = cas.ErrCorrupt
			}
			if err != nil {
				damaged("%s: %v", e.Path, err)
				continue
			}
			out.Objects++
			out.Bytes += n
		}
	}
	out.Intact = len(out.Damaged) == 0
	return out, nil
}

func notFoundUnless(ok bool, id string) error {
	if ok {
		return nil
	}
	return NotFound(id)
}

// Collect removes snapshots that no user made and that are older than the limit, and then the
// contents that no snapshot needs. While one record or list cannot be read, no content is removed:
// it could be the only copy of something.
func (t *Timeline) Collect(ctx context.Context) error {
	s, err := t.open(ctx, false)
	if s == nil {
		return err
	}
	if ttl := t.Limits().TTL; ttl > 0 {
		t.unused(ctx, "")
		for _, r := range t.expired(t.Now().Add(-ttl)) {
			if _, err := t.Remove(ctx, r); err != nil && api.CodeOf(err) != api.CodeNotFound {
				return err
			}
		}
	}
	b, err := s.Begin(ctx, 0) // no snapshot is being made between the list and the sweep
	if err != nil {
		return err
	}
	needed, err := t.needed()
	if err == nil {
		var swept cas.Swept
		swept, err = b.Sweep(ctx, func(h cas.Hash) bool { return needed[h] })
		if swept.Objects > 0 {
			t.Log.Info("contents that no snapshot needs were removed", "workspace", t.Workspace, "objects", swept.Objects, "bytes", swept.Bytes)
		}
	}
	return errors.Join(err, b.Close(), t.dropCommits(ctx))
}

func (t *Timeline) expired(before time.Time) (ids []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, r := range t.records {
		if r.Why != api.SnapshotByUser && !r.Kept && !r.InUse && t.pins[id] == 0 && r.Time.Before(before) {
			ids = append(ids, id)
		}
	}
	return ids
}

func (t *Timeline) unreadable(records int) error {
	return api.Errorf(api.CodeSnapshotCorrupt, "%s of workspace %s cannot be read, so no stored content is removed", api.Count(records, "record"), t.Workspace).
		WithHint("the log of polisd names the files in %s; move them away if nothing in them is needed", t.recordsDir())
}

// needed returns every content that a record leads to.
func (t *Timeline) needed() (map[cas.Hash]bool, error) {
	t.mu.Lock()
	all := make([]record, 0, len(t.records))
	for _, r := range t.records {
		all = append(all, r)
	}
	unread := len(t.unread)
	pinned := t.pinned()
	t.mu.Unlock()
	if unread > 0 {
		return nil, t.unreadable(unread)
	}
	out := pinned
	need := func(all []snapshot.Entry) {
		for i := range all {
			for _, h := range []cas.Hash{all[i].Hash, all[i].Attrs} {
				if !h.IsZero() {
					out[h] = true
				}
			}
		}
	}
	for _, r := range all {
		manifest, err := cas.Parse(r.Manifest)
		if err != nil {
			return nil, corrupt(r.ID, err)
		}
		if !out[manifest] { // many checkpoints have the same
			m, err := t.stateOf(r.Manifest, nil)
			if err != nil {
				return nil, corrupt(r.ID, err)
			}
			need(m.Entries)
		}
		d, err := t.deltaOf(r)
		if err != nil {
			return nil, err
		}
		need(d.Entries)
		for _, s := range []string{r.Manifest, r.Delta, r.Index} {
			if s == "" {
				continue
			}
			h, err := cas.Parse(s)
			if err != nil {
				return nil, corrupt(r.ID, err)
			}
			out[h] = true
		}
	}
	return out, nil
}
