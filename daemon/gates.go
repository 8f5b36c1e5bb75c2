package daemon

import (
	"context"
	"maps"
	"slices"
	"strings"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/gate"
	"polis/daemon/git"
	"polis/daemon/merge"
	"polis/fusefs/policy"
	"polis/fusefs/shared"
)

// gate returns an agent's branch and the rules that its changes are compared with before a merge.
// Rules that do not compile refuse everything.
func (w *workspace) gate(name string) (agent.Branch, gate.Rules, error) {
	b, err := w.d.agents.Prepared(name)
	if err != nil {
		return b, gate.Rules{}, err
	}
	p := b.Policy
	set, err := policy.Compile(policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide})
	if err != nil {
		return b, gate.Rules{}, api.Errorf(api.CodeBadRequest, "rules of agent %s: %w", name, err)
	}
	rules := gate.Rules{Policy: set}
	for _, other := range slices.Sorted(maps.Keys(b.Exclusive)) {
		globs, err := gate.Compile(b.Exclusive[other])
		if err != nil {
			return b, rules, api.Errorf(api.CodeBadRequest, "exclusive paths of agent %s: %w", other, err)
		}
		rules.Others = append(rules.Others, gate.Claim{Agent: other, Paths: globs})
	}
	c := w.d.live()
	// Files that make ignored files of the user's checkout visible to agents are always protected.
	protected := append(slices.Clone(c.MergeRules(w.agents.Name).Protected), shared.IncludeFile)
	if rules.Protected, err = gate.Compile(protected); err != nil {
		return b, rules, api.Errorf(api.CodeInvalidConfig, "merge.protected: %w", err)
	}
	return b, rules, nil
}

// judgePush compares an agent's push with its rules, as a merge does. Commits that the target
// contains, or that the remote is known to have of the target and of the pushed branch, are not
// judged again.
func (w *workspace) judgePush(ctx context.Context, a api.Agent, remote, ref, commit string) error {
	_, rules, err := w.gate(a.Name)
	if err != nil {
		return err
	}
	bare, target := w.git.Bare(), git.Branch(w.agents.Target)
	ours, err := bare.Ref(ctx, target)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read branch %s: %w", w.agents.Target, err)
	}
	known := []string{ours}
	has := []string{remoteRef(remote, target)}
	if strings.HasPrefix(ref, "refs/heads/") {
		has = append(has, remoteRef(remote, ref))
	}
	theirs, err := w.git.Internal().Refs(ctx, has...) // the objects are in the shared one
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read what %s has: %w", remote, err)
	}
	for _, name := range slices.Sorted(maps.Keys(theirs)) {
		known = append(known, theirs[name])
	}
	if err := w.merger.CheckTrees(ctx, a.Branch, commit, ours); err != nil {
		return err
	}
	changes, err := gate.ChangedSince(ctx, bare, commit, known...)
	if err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "read what %s changes: %w", ref, err)
	}
	return merge.Held(a.Name, a.Branch, rules.Judge(changes), false)
}

// remoteRef returns the ref that records a branch of a remote.
func remoteRef(name, ref string) string {
	return "refs/polis/remotes/" + name + "/" + strings.TrimPrefix(ref, "refs/")
}
