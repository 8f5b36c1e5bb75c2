package daemon

import (
	"context"
	"slices"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/merge/gate"
	"polis/daemon/merge/remote"
	"polis/fusefs/shared"
)

// gate returns an agent's branch and the rules that its changes are compared with before a merge.
// Rules that do not compile refuse everything.
func (w *workspace) gate(name string) (agent.Branch, gate.Rules, error) {
	b, err := w.d.agents.Prepared(name)
	if err != nil {
		return b, gate.Rules{}, err
	}
	c := w.d.live()
	// Files that make ignored files of the user's checkout visible to agents are always protected.
	protected := append(slices.Clone(c.MergeRules(w.agents.Name).Protected), shared.IncludeFile)
	rules, err := gate.Compiled(name, b.Policy, b.Exclusive, protected)
	rules.Reasons = config.ProtectedReasons()
	if len(b.ApprovedWrites) > 0 {
		rules.Approved = func(c gate.Change) bool { return w.approved(name, b.ApprovedWrites, c) }
	}
	return b, rules, err
}

// approved reports whether a person has approved what an agent's branch changes at a path: the write of the
// path, and the file in the agent's worktree is what is merged. Git can commit something else there, which
// nobody has approved.
func (w *workspace) approved(name string, paths []string, c gate.Change) bool {
	if !slices.Contains(paths, c.Path) {
		return false
	}
	switch c.New {
	case gate.ModeNone:
		return w.git.FileIs(name, c.Path, "")
	case gate.ModeFile, gate.ModeExec:
		return w.git.FileIs(name, c.Path, c.ID)
	}
	return false
}

// pushJudge returns what decides about an agent's push.
func (w *workspace) pushJudge(ctx context.Context, a api.Agent, rules config.GitRules, to string) remote.PushJudge {
	j := remote.PushJudge{Agent: remote.Pusher{Name: a.Name, Branch: a.Branch, Branches: rules.Branches}, Target: w.agents.Target,
		Shared: w.git.Bare(), Internal: w.git.Internal(), Remote: to, CheckTrees: w.merger.CheckTrees,
		Rules: func() (gate.Rules, error) {
			_, r, err := w.gate(a.Name)
			return r, err
		}}
	sh := w.d.shims.Dial(a.Name)
	defer sh.Close()
	if st, err := sh.Status(ctx); err == nil {
		j.Agent.Owned = st.OwnedRefs
	}
	return j
}
