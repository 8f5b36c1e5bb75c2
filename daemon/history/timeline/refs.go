package timeline

import (
	"context"
	"io"
	"maps"
	"slices"

	"polis/daemon/api"
	"polis/daemon/history/cas"
	"polis/daemon/history/snapshot"
)

// refs notes where the agent's git is.
func (w *writer) refs(tree Tree) {
	if tree.Git != nil {
		w.rec.Head, w.rec.Refs = tree.Git.Head, tree.Git.Refs
	}
}

// sameRefs reports whether a checkpoint has the refs that were read. One whose refs are not known is no
// reason to make another, nor is a stash that could not be kept.
func sameRefs(last, now api.Snapshot) bool {
	if last.Refs[stash] == "" {
		now.Refs = maps.Clone(now.Refs)
		delete(now.Refs, stash)
	}
	return last.Head == "" || now.Head == "" || last.Head == now.Head && maps.Equal(last.Refs, now.Refs)
}

// commitsOf are the commits that a checkpoint keeps.
func commitsOf(s api.Snapshot) []string {
	if s.Head == "" {
		return nil
	}
	out := slices.Collect(maps.Values(s.Refs))
	if s.Commit != "" {
		out = append(out, s.Commit)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

const stash = "refs/stash"

// keepCommits keeps the commits of the record, as far as no other record does, before it exists. Without
// them the record has no refs. The agent writes its stash itself, with any content: that alone can be missing.
func (w *writer) keepCommits(ctx context.Context) {
	err := w.tryKeep(ctx)
	if err != nil && w.rec.Refs[stash] != "" {
		w.rec.Refs = maps.Clone(w.rec.Refs)
		delete(w.rec.Refs, stash)
		err = w.tryKeep(ctx)
	}
	if err != nil {
		w.t.Log.Warn("commits of a checkpoint not kept: it has no refs", "agent", w.rec.Agent, "err", err)
		w.rec.Head, w.rec.Refs = "", nil
	}
}

func (w *writer) tryKeep(ctx context.Context) error {
	all := commitsOf(w.rec)
	w.t.mu.Lock()
	for _, r := range w.t.records {
		if r.Agent == w.rec.Agent {
			kept := commitsOf(r.Snapshot)
			all = slices.DeleteFunc(all, func(c string) bool { return slices.Contains(kept, c) })
		}
	}
	w.t.mu.Unlock()
	if len(all) == 0 {
		return nil
	}
	return w.t.Host.KeepCommits(ctx, w.rec.Agent, all)
}

// dropCommits ends that commits are kept which no record has.
func (t *Timeline) dropCommits(ctx context.Context) error {
	t.mu.Lock()
	needed := map[string]map[string]bool{}
	for _, r := range t.records {
		for _, c := range commitsOf(r.Snapshot) {
			if needed[r.Agent] == nil {
				needed[r.Agent] = map[string]bool{}
			}
			needed[r.Agent][c] = true
		}
	}
	unread := len(t.unread)
	t.mu.Unlock()
	if unread > 0 {
		return nil // Collect reports it
	}
	return t.Host.DropCommits(ctx, func(agent, commit string) bool { return needed[agent][commit] })
}

// rewind restores what a request names. own: the agent itself asks.
func (t *Timeline) rewind(ctx context.Context, id string, req api.RewindRequest, own bool) (api.SnapshotRestored, error) {
	if req.Branch && len(req.Paths) > 0 {
		return api.SnapshotRestored{}, api.Errorf(api.CodeBadRequest, "a rewind of the branch is one of all files: give no paths")
	}
	return t.restore(ctx, id, api.SnapshotRestoreRequest{Paths: req.Paths, DryRun: req.DryRun}, restorer{own: own, branch: req.Branch})
}

// planRefs finds how HEAD and the refs are moved, and whether they may be.
func (r *restorer) planRefs(ctx context.Context, tree Tree) error {
	if !r.branch {
		return nil
	}
	r.t.mu.Lock()
	r.to = r.t.records[r.id]
	r.t.mu.Unlock()
	if r.to.Covers != api.SnapshotFiles {
		return api.Errorf(api.CodeBadRequest, "snapshot %s covers %q: the branch goes back only with one that covers %q", r.id, r.to.Covers, api.SnapshotFiles)
	}
	if r.to.Head == "" || tree.Git == nil {
		return api.Errorf(api.CodeBadState, "checkpoint %s of agent %s has no refs: its commits could not be kept, or it is of an earlier version of polis", r.id, r.w.rec.Agent).
			WithHint("without --branch only the files are brought back")
	}
	if err := tree.Git.Movable(ctx, r.to.Snapshot); err != nil {
		return err
	}
	r.moves = tree.Git.Moves(r.to.Snapshot)
	return nil
}

// moving reports whether refs or the index are to be brought back. An interrupted restore can have moved
// some of them.
func (r *restorer) moving() bool {
	return r.branch && (r.again || len(r.moves) > 0 || r.to.Index != r.w.rec.Index)
}

// skip has the agent's git expect those files away that a sparse checkout did not have then: it has the index of now,
// and would see them as removed.
func (r *restorer) skip(ctx context.Context, tree Tree) error {
	r.t.mu.Lock()
	text := r.t.records[r.id].Index
	r.t.mu.Unlock()
	if tree.Skip == nil {
		return nil
	}
	restored := func(path string) bool { return snapshot.Within(path, r.req.Paths) }
	if text == "" {
		return tree.Skip(ctx, restored, nil)
	}
	h, err := cas.Parse(text)
	if err != nil {
		return corrupt(r.id, err)
	}
	return tree.Skip(ctx, restored, func(to io.Writer) error { _, err := r.t.objects.Copy(to, h); return err })
}

// moveRefs brings HEAD, the index and the refs back.
func (r *restorer) moveRefs(ctx context.Context, tree Tree) error {
	var index func(io.Writer) error
	if r.to.Index != "" {
		h, err := cas.Parse(r.to.Index)
		if err != nil {
			return corrupt(r.id, err)
		}
		index = func(to io.Writer) error { _, err := r.t.objects.Copy(to, h); return err }
	}
	return tree.Git.Move(ctx, r.to.Snapshot, index)
}

func (r *restorer) changed(ctx context.Context, tree Tree) {
	if err := tree.Changed(ctx); err != nil {
		r.t.Log.Warn("view not notified of a restore", "agent", r.w.rec.Agent, "err", err)
	}
}
