package agent

import (
	"context"
	"fmt"

	"polis/daemon/api"
	"polis/daemon/config"
	"polis/daemon/rules/cone"
)

// Cones is the part of Repo that knows sparse checkouts.
type Cones interface {
	// OwnersCone returns the sparse checkout of the project, as its owner's git has it: nil if it has all files, or
	// what it has cannot be read, of which notice says why.
	OwnersCone(ctx context.Context) (cone *api.Sparse, notice string)
	// MissingDirs returns those of the directories that the target has not.
	MissingDirs(ctx context.Context, dirs []string) ([]string, error)
	// Cone returns the sparse checkout that an agent's git has now, as far as it is one that polis reads; else the
	// one that its worktree was made with; nil: it has all files.
	Cone(ctx context.Context, a *Agent) *api.Sparse
	// FoundCone returns the sparse checkout of a worktree of which nothing is recorded; nil: it has all files.
	FoundCone(ctx context.Context, agent string) *api.Sparse
}

// sparseOf returns the sparse checkout of a new agent, nil if it has all files: of the request, else of the base type, else
// of the project's own checkout. notices are for the person who adds the agent.
func (m *Manager) sparseOf(ctx context.Context, ws *Workspace, typ config.BaseType, req api.AddRequest) (s *api.Sparse, notices []string, err error) {
	if err := checkSparse(ws, req); err != nil {
		return nil, nil, err
	}
	switch {
	case !ws.Git || req.ReadOnly || req.NoSparse:
		return nil, nil, nil
	case req.Cone != nil:
		return req.Cone.Clone(), nil, nil
	case len(req.Sparse) > 0:
		return m.named(ctx, ws, "sparse", req.Sparse)
	case typ.Sparse != nil && len(typ.Sparse) == 0:
		return nil, nil, nil
	case typ.Sparse != nil:
		return m.named(ctx, ws, "sparse of base type "+typ.Name, typ.Sparse)
	}
	s, notice := ws.Repo.OwnersCone(ctx)
	if notice != "" {
		m.Log.Warn("sparse checkout of the project's owner not used", "workspace", ws.Name, "reason", notice)
		notices = []string{notice}
	}
	return s, notices, nil
}

// checkSparse rejects what contradicts itself, and a sparse checkout of what git does not check out.
func checkSparse(ws *Workspace, req api.AddRequest) error {
	switch {
	case len(req.Sparse) == 0:
		return nil
	case req.NoSparse:
		return api.Errorf(api.CodeBadRequest, "sparse and no_sparse exclude each other").WithHint("leave one of the two out")
	}
	return ws.NeedsGit("a sparse checkout is one of git")
}

// named returns the sparse checkout of directories that were named in a field.
func (m *Manager) named(ctx context.Context, ws *Workspace, field string, dirs []string) (*api.Sparse, []string, error) {
	c, err := cone.New(dirs...)
	if err != nil {
		return nil, nil, api.Errorf(api.CodeBadRequest, "%s: %w", field, err).WithHint("name directories as git does: src/lib")
	}
	missing, err := ws.Repo.MissingDirs(ctx, c.Dirs())
	if err != nil {
		m.Log.Warn("directories of a sparse checkout not compared with the target", "workspace", ws.Name, "err", err)
	}
	var notices []string
	for _, dir := range missing[:min(len(missing), 3)] {
		notices = append(notices, fmt.Sprintf("%s: the target branch has no directory %q: the agent has its files once a commit has them", field, api.Shorten(dir, 200)))
	}
	return &api.Sparse{Directories: c.Dirs()}, notices, nil
}
