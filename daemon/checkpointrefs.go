package daemon

import (
	"context"
	"io"
	"maps"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/git/worktree"
	"polis/daemon/history/timeline"
)

const stashRef = "refs/stash"

// KeepCommits keeps the commits of checkpoints.
func (h snapshotHost) KeepCommits(ctx context.Context, name string, commits []string) error {
	return h.w.git.KeepCommits(h.w.d.charge(ctx, name), name, commits)
}

// DropCommits ends that commits are kept which no checkpoint needs.
func (h snapshotHost) DropCommits(ctx context.Context, needed func(agent, commit string) bool) error {
	return h.w.git.DropCommits(ctx, needed)
}

// git reads where the git of an agent is, and its commit. readable is false if the agent's rules withhold files.
// Refs that cannot be read are logged, and are in no checkpoint.
func (h snapshotHost) git(ctx context.Context, a agent.Held, readable bool) (g *timeline.Git, commit string, err error) {
	name, k := a.Name(), a.Copy()
	owned, unread := a.OwnedRefs(ctx)
	var refs worktree.Refs
	if unread == nil {
		refs, unread = h.w.git.Refs(ctx, name, k.Branch, owned)
	}
	if unread != nil {
		h.w.d.Log.Warn("refs not read for a checkpoint", "agent", name, "err", unread)
	} else if strings.HasPrefix(refs.Head, "ref: ") {
		commit = refs.Commit()
	}
	if commit == "" {
		if commit, err = h.w.git.Head(ctx, name); err != nil {
			return nil, "", err
		}
	}
	if unread != nil {
		return nil, commit, nil //nolint:nilerr // it is logged, and the checkpoint has the files
	}
	all := maps.Clone(refs.Own)
	if refs.Stash != "" {
		all[stashRef] = refs.Stash
	}
	at := func(s api.Snapshot) worktree.Refs {
		own := maps.Clone(s.Refs)
		delete(own, stashRef)
		return worktree.Refs{Head: s.Head, Own: own}
	}
	return &timeline.Git{Head: refs.Head, Refs: all,
		Movable: func(ctx context.Context, to api.Snapshot) error { return h.movable(ctx, a, to, readable) },
		Moves: func(to api.Snapshot) (out []api.RefMoved) {
			for _, m := range worktree.Moves(refs, at(to)) {
				out = append(out, api.RefMoved(m))
			}
			return out
		},
		Move: func(ctx context.Context, to api.Snapshot, index func(io.Writer) error) error {
			return h.w.git.MoveRefs(h.w.d.charge(ctx, name), name, k.Branch, owned, at(to), index)
		}}, commit, nil
}

// movable returns an error if the branch of an agent must not go back: the queue has it, the target has more of it
// than the checkpoint, git is busy, or the agent's git is not a view of the shared one.
func (h snapshotHost) movable(ctx context.Context, a agent.Held, to api.Snapshot, readable bool) error {
	name, k := a.Name(), a.Copy()
	if !readable {
		return api.Errorf(api.CodeBadState, "the branch of agent %s is not moved: its rules withhold files", name).
			WithHint("without --branch only the files are brought back")
	}
	for _, e := range h.w.queue.Entries() {
		if e.Agent == name {
			return api.Errorf(api.CodeBadState, "the branch of agent %s is in the merge queue", name).
				WithHint("polisctl queue remove %s takes it out; without --branch only the files are brought back", name)
		}
	}
	merged := ""
	if k.MergeStatus == api.MergeMerged {
		merged = k.MergeCommitSHA
	}
	return h.w.git.MayMove(h.w.d.charge(ctx, name), name, to.Commit, merged)
}
