package worktree

import (
	"context"
	"fmt"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Uncommitted names the files of an agent's worktree that differ from its HEAD, every untracked
// one by itself; ignored files and submodules do not count. It reads below the view and changes
// nothing, not even the index. An agent without a worktree is WORKTREE_MISSING.
func (w *Workspace) Uncommitted(ctx context.Context, agent string) ([]string, error) {
	if err := w.usable(agent); err != nil {
		return nil, err
	}
	out, err := w.readFiles(ctx, agent, View{}, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "read the worktree of %s: %w", agent, err)
	}
	fields := git.SplitNUL(out)
	paths := make([]string, 0, len(fields))
	for _, f := range fields {
		if len(f) < 4 || f[2] != ' ' {
			return nil, api.Errorf(api.CodeWorktreeFailed, "read the worktree of %s: %w", agent, fmt.Errorf("git status: cannot read %q", api.Shorten(f, 80)))
		}
		// A directory ends with a slash: another repository, which git does not enter.
		paths = append(paths, strings.TrimSuffix(f[3:], "/"))
	}
	return paths, nil
}
