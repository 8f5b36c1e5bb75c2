package daemon

import (
	"context"
	"io"

	"polis/daemon/agent"
	"polis/daemon/api"
	"polis/daemon/rules/cone"
)

// coneOf is the cone of a sparse checkout; nil: all files. What is stored was checked when the agent was added.
func coneOf(s *api.Sparse) *cone.Cone {
	if s == nil {
		return nil
	}
	c, err := cone.New(s.Directories...)
	if err != nil {
		return nil
	}
	return &c
}

func sparseOf(c *cone.Cone) *api.Sparse {
	if c == nil {
		return nil
	}
	return &api.Sparse{Directories: c.Dirs()}
}

// coneOf returns the cone that an agent's worktree is made with; nil: it has all files.
func (d *Daemon) coneOf(name string) *cone.Cone { return coneOf(d.agents.Sparse(name)) }

// withheld returns the lines of patterns by which git checks out none of the files that an agent's rules withhold.
func (w *workspace) withheld(agent string) string { return w.filter.Patterns(w.d.filteredOf(w, agent)) }

// OwnersCone returns the sparse checkout of the project.
func (r repo) OwnersCone(ctx context.Context) (s *api.Sparse, notice string) {
	const full = "; new agents have all files: --sparse DIR gives one some of them"
	c, err := r.w.git.OwnersCone(ctx, homeOf)
	if err != nil {
		return nil, "the sparse checkout of the project is not used: " + err.Error() + full
	}
	return sparseOf(c), ""
}

// MissingDirs returns the directories that the target has not.
func (r repo) MissingDirs(ctx context.Context, dirs []string) ([]string, error) {
	return r.w.git.MissingDirs(ctx, dirs)
}

// Cone returns the sparse checkout that an agent has now.
func (r repo) Cone(ctx context.Context, a *agent.Agent) *api.Sparse {
	return sparseOf(r.w.git.Cone(ctx, a.Name()))
}

// FoundCone returns the sparse checkout of a worktree of which nothing is recorded.
func (r repo) FoundCone(ctx context.Context, name string) *api.Sparse {
	return sparseOf(r.w.git.FoundCone(ctx, name))
}

// skip returns what makes the git of an agent with a sparse checkout expect files away; nil: the agent has all files.
func (h snapshotHost) skip(name string) func(context.Context, func(string) bool, func(io.Writer) error) error {
	if h.w.d.coneOf(name) == nil {
		return nil
	}
	return func(ctx context.Context, of func(string) bool, index func(io.Writer) error) error {
		return h.w.git.SkipMissing(h.w.d.charge(ctx, name), name, of, index)
	}
}
