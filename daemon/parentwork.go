package daemon

import (
	"context"

	"polis/daemon/agent"
	"polis/daemon/git"
)

// parentHas returns the parent of a worker if the parent's branch has all of the commits, else "".
func (r repo) parentHas(ctx context.Context, a *agent.Agent, tips []string) string {
	p := r.w.d.agents.Parent(a)
	if p == nil || p.WS != a.WS || len(tips) == 0 {
		return ""
	}
	k, bare := p.Copy(), r.w.git.Bare()
	at, err := bare.Ref(ctx, git.Branch(k.Branch))
	if err != nil {
		return ""
	}
	for _, tip := range tips {
		if in, err := bare.IsAncestor(ctx, tip, at); err != nil || !in {
			return ""
		}
	}
	return k.Name
}
