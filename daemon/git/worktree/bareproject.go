package worktree

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/internal/asuser"
)

// maxListed bounds the worktrees that an error names.
const maxListed = 20

// mayClone refuses to clone a bare repository that has worktrees: people work in these, and nothing that is merged into
// the clone would reach them. exists: the workspace has its clone already.
func (u *upper) mayClone(ctx context.Context, p *Project, exists bool) error {
	if exists || u.spec.Clone {
		return nil
	}
	trees, err := p.linkedTrees(ctx)
	if err != nil {
		return api.Errorf(api.CodeWorkspaceInvalid, "list the worktrees of %s: %w", p.Path, err)
	}
	if len(trees) == 0 {
		return nil
	}
	return api.Errorf(api.CodeWorkspaceInvalid, "%s is a bare repository with worktrees (%s): the project would be a new clone, and merges would not reach these", p.Path, api.Shorten(strings.Join(trees, ", "), 400)).
		With("bare", p.Path).With("worktrees", trees).
		WithHint("for one of its worktrees: polisctl up --repo %s; for a clone: polisctl up --repo %s --clone", trees[0], p.Path)
}

// linkedTrees returns the paths of the worktrees of the repository that exist, at most maxListed. The one of the branch
// of the repository's HEAD comes first.
func (p *Project) linkedTrees(ctx context.Context) (trees []string, err error) {
	out, err := p.Run(ctx, "worktree", "list", "--porcelain", "-z")
	if err != nil {
		return nil, err
	}
	head, err := p.Line(ctx, "symbolic-ref", "--quiet", "HEAD")
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) { // 1: it is detached
		return nil, err
	}
	err = asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		// The first record is the repository itself.
		for _, record := range bytes.Split(out, []byte("\x00\x00"))[1:] {
			lines := git.SplitNUL(record)
			if len(lines) == 0 || len(trees) == maxListed {
				continue
			}
			path := strings.TrimPrefix(lines[0], "worktree ")
			switch _, err := os.Lstat(path); {
			case errors.Is(err, os.ErrNotExist):
			case err != nil:
				return err
			case slices.Contains(lines, "branch "+head):
				trees = slices.Insert(trees, 0, path)
			default:
				trees = append(trees, path)
			}
		}
		return nil
	})
	return trees, err
}
