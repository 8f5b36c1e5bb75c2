package remote

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/merge"
	"polis/daemon/merge/gate"
)

// MaxUpdates is the most refs that one push may update.
const MaxUpdates = 64

// Pusher is the agent that pushes.
type Pusher struct {
	Name, Branch string // the branch is short
	// Branches are patterns (path.Match) of other branches that the configuration allows.
	Branches []string
	// Owned are the full names of the refs that the agent made, such as its tags.
	Owned []string
}

// PushJudge decides about the pushes of one agent to one remote. Assign its fields, then use it.
type PushJudge struct {
	Agent  Pusher
	Target string // short name of the branch that only merges move
	// Shared is the shared repository. Internal has the refs that record what remotes have.
	Shared, Internal git.Repo
	// Remote is the name of the remote.
	Remote string
	// Rules returns what the agent's changes are compared with.
	Rules func() (gate.Rules, error)
	// CheckTrees refuses the commits between base and commit that no checkout can hold, BAD_TREE.
	CheckTrees func(ctx context.Context, branch, commit, base string) error
}

// Split divides updates into those that the agent may push and the refused ones, with the reason
// of each by ref. An update that is not of a branch or tag is an error, as is a repository that
// cannot be read.
func (j PushJudge) Split(ctx context.Context, updates []api.RemoteUpdate) (allowed []api.RemoteUpdate, refused map[string]string, err error) {
	refused = map[string]string{}
	if len(updates) == 0 || len(updates) > MaxUpdates {
		return nil, nil, api.Errorf(api.CodeBadRequest, "updates has %d entries: from 1 to %d", len(updates), MaxUpdates)
	}
	for _, u := range updates {
		why, err := j.update(ctx, u)
		switch {
		case err != nil:
			return nil, nil, err
		case why != "":
			refused[u.Ref] = why
		default:
			allowed = append(allowed, u)
		}
	}
	return allowed, refused, nil
}

// update returns why one update is refused, "" if it is allowed.
func (j PushJudge) update(ctx context.Context, u api.RemoteUpdate) (refused string, err error) {
	branch, isBranch := strings.CutPrefix(u.Ref, "refs/heads/")
	name := branch
	if !isBranch {
		name = strings.TrimPrefix(u.Ref, "refs/tags/")
	}
	if name == u.Ref || git.CheckBranch(name) != nil || u.Commit != "" && !git.IsOID(u.Commit) {
		return "", api.Errorf(api.CodeBadRequest, "update of %q: not a branch or tag and the id of a commit", api.Shorten(u.Ref, 200))
	}
	match := func(p string) bool { ok, err := path.Match(p, branch); return ok && err == nil }
	switch {
	case isBranch && slices.ContainsFunc(j.Agent.Branches, match):
	case u.Ref == "refs/heads/"+j.Target:
		return "merges go there: polisctl merge " + j.Agent.Name, nil
	case u.Ref == "refs/heads/"+j.Agent.Branch, slices.Contains(j.Agent.Owned, u.Ref):
	default:
		return "not a branch or tag of agent " + j.Agent.Name + "; git.branches in polisd.toml names others", nil
	}
	if u.Commit == "" { // the ref is deleted
		return "", nil
	}
	// A tag must name a commit too: only the content of a commit can be compared with the rules.
	commit, err := j.Shared.Commit(ctx, u.Commit)
	if errors.Is(err, git.ErrNotFound) {
		return "there is no such commit", nil
	} else if err != nil {
		return "", err
	}
	err = j.content(ctx, u.Ref, commit)
	switch code := api.CodeOf(err); code {
	case api.CodeUndeclaredWrite, api.CodeProtectedPath, api.CodeBadTree:
		return fmt.Sprintf("%s: %v", code, err), nil
	}
	return "", err
}

// content compares a commit with the agent's rules, as a merge does. Commits that the target
// contains, or that the remote is known to have of the target and of the pushed branch, are not
// judged again.
func (j PushJudge) content(ctx context.Context, ref, commit string) error {
	rules, err := j.Rules()
	if err != nil {
		return err
	}
	target := git.Branch(j.Target)
	ours, err := j.Shared.Ref(ctx, target)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", j.Target, err)
	}
	known := []string{ours}
	has := []string{remoteRef(j.Remote, target)}
	if strings.HasPrefix(ref, "refs/heads/") {
		has = append(has, remoteRef(j.Remote, ref))
	}
	theirs, err := j.Internal.Refs(ctx, has...) // the objects are in the shared one
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read what %s has: %w", j.Remote, err)
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		known = append(known, theirs[name])
	}
	if err := j.CheckTrees(ctx, j.Agent.Branch, commit, ours); err != nil {
		return err
	}
	changes, err := gate.ChangedSince(ctx, j.Shared, commit, known...)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read what %s changes: %w", ref, err)
	}
	return merge.Held(j.Agent.Name, j.Agent.Branch, rules.Judge(changes), false)
}

// remoteRef returns the ref that records a branch of a remote.
func remoteRef(name, ref string) string {
	return "refs/polis/remotes/" + name + "/" + strings.TrimPrefix(ref, "refs/")
}
