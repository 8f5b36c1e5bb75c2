package cleanup

import (
	"context"
	"log/slog"
)

// Work reads the work of one agent.
type Work interface {
	// Status counts the files in no commit, and the commits of its HEAD and branch that the target
	// does not have.
	Status(ctx context.Context) (uncommitted, unmerged int, err error)
	// HasStash reports whether it has a stash of its own.
	HasStash() (bool, error)
	// Tips returns the commits of its HEAD and branch.
	Tips(ctx context.Context) ([]string, error)
	// Parent returns the agent that made this one, with the commit of its branch; "" if no agent
	// of the workspace did.
	Parent(ctx context.Context) (agent, tip string)
	// IsAncestor reports whether commit is tip, or an ancestor of it.
	IsAncestor(ctx context.Context, commit, tip string) (bool, error)
}

// Measure measures the work of an agent. The costly comes last: its parent and then the remotes are
// compared only if all else would let the agent go.
func Measure(ctx context.Context, target string, w Work, r Remotes, log *slog.Logger) Measured {
	m := Measured{Target: target}
	m.Uncommitted, m.Unmerged, m.Err = w.Status(ctx)
	if m.Err == nil {
		m.Stash, m.Err = w.HasStash()
	}
	if m.Err != nil || !m.Elsewhere() {
		return m
	}
	tips, err := w.Tips(ctx)
	if err != nil {
		m.Err = err
		return m
	}
	if m.Parent = parentHas(ctx, w, tips); m.Parent == "" {
		m.Query(ctx, r, tips, log)
	}
	return m
}

// parentHas returns the agent that made this one if its branch has all of the commits, else "".
func parentHas(ctx context.Context, w Work, tips []string) string {
	if len(tips) == 0 {
		return ""
	}
	agent, at := w.Parent(ctx)
	if agent == "" {
		return ""
	}
	for _, tip := range tips {
		if has, err := w.IsAncestor(ctx, tip, at); err != nil || !has {
			return ""
		}
	}
	return agent
}
