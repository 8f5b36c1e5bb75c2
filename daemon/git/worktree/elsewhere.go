package worktree

import (
	"context"
	"maps"
	"slices"
	"strings"

	"polis/daemon/api"
)

// Elsewhere is the rest for people and programs: each end with the command that merges it.
func (k Work) Elsewhere(agent, branch string) []api.BranchWork {
	var out []api.BranchWork
	for _, e := range k.Rest {
		out = append(out, api.BranchWork{Branch: e.Branch, Commits: e.Commits, Run: e.command(agent, branch)})
	}
	return out
}

// command is the command with which the next merge of the agent takes the end.
func (e End) command(agent, branch string) string {
	git := []string{"git", "merge", "--no-edit", e.Branch}
	switch {
	case e.Unfinished:
		return "polisctl agents exec " + agent + " -- git status" // which says how to end it
	case e.Head && e.Contains:
		git = []string{"git", "switch", "-C", branch}
	case e.Head:
		git = []string{"git", "merge", "--no-edit", branch}
	}
	for i := range git {
		git[i] = api.ShellWord(git[i])
	}
	return "polisctl agents exec " + agent + " -- " + strings.Join(git, " ") + " && polisctl merge " + agent
}

// PublishHead makes the commit of a detached HEAD, and all that it reaches, readable in the shared repository.
// The agent's rules must withhold nothing.
func (w *Workspace) PublishHead(ctx context.Context, agent, commit string) error {
	if err := w.Bare().PublishKept(ctx, w.ownDir(agent), commit+"^{commit}"); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "read the commits of %s: %w", agent, err)
	}
	return nil
}

// PrivateNames are the names of some of the private refs.
func (k Work) PrivateNames() []string {
	names := slices.Sorted(maps.Keys(k.Private))
	return names[:min(len(names), maxNames)]
}
