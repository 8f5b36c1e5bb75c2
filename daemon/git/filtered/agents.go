package filtered

import (
	"context"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/policy"
)

// maxMissing is the most objects that an agent's git may request at once.
const maxMissing = 1000

// Reading compiles the rules that decide which files an agent reads, as its view has them. temp are
// the configured names of temporary files.
func Reading(p api.Policy, temp []string) (policy.Rules, *policy.Set, error) {
	rules := policy.Rules{Read: p.Read, Write: p.Write, Ask: p.Ask, Deny: p.Deny, Hide: p.Hide, Temp: temp}
	set, err := policy.Compile(rules)
	if err != nil {
		return rules, nil, api.Errorf(api.CodeBadRequest, "policy: %w", err)
	}
	return rules, set, nil
}

// InUse returns the keys of the stores that agents with these policies use. known is false if the
// rules of one do not compile: then no store may be removed.
func InUse(policies []api.Policy, temp []string) (keys []string, known bool, err error) {
	for _, p := range policies {
		rules, set, err := Reading(p, temp)
		if err != nil {
			return nil, false, nil //nolint:nilerr // unknown rules: unknown what is used
		}
		if set.AllReadable() {
			continue
		}
		key, err := Key(rules)
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, key)
	}
	return keys, true, nil
}

// Answer brings the store of an agent up to what the refs lead to now, and returns those of ids that
// it lacks then, as Missing does. Surplus ids are ignored.
func (k *Keeper) Answer(ctx context.Context, agent, key string, ids []string) (map[string]string, error) {
	if err := k.Update(ctx, key); err != nil {
		k.Log.Warn("filtered objects are not up to date", "agent", agent, "op", "filter", "err", err)
		return nil, api.Errorf(api.CodeUnavailable, "the objects that agent %s may read cannot be brought up to the refs: %w", agent, err)
	}
	return k.Missing(ctx, key, ids[:min(len(ids), maxMissing)])
}

// CheckSaved refuses to restore, for an agent with these rules, saved work that has a withheld file
// at another path: what was never published was never judged. ref is in internal.
func (k *Keeper) CheckSaved(ctx context.Context, agent string, rules policy.Rules, internal git.Repo, ref string) error {
	saved, err := internal.Ref(ctx, ref)
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "restore %s: %w", ref, err)
	}
	key, err := k.Ensure(ctx, rules)
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "restore %s: %w", ref, err)
	}
	if err := k.allowSaved(ctx, key, internal.ObjectDir(), saved); err != nil {
		return api.Errorf(api.CodeUndeclaredRead, "restore %s: %w", ref, err).
			WithHint("the saved work has a file at a path that agent %s may read, and its rules withhold that file elsewhere; take from it what you want: git --git-dir %s show %s", agent, internal.Dir, ref)
	}
	return nil
}
