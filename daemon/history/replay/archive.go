package replay

import (
	"context"
	"io"

	"polis/daemon/api"
)

// Archive writes the files of a branch, as they were after the last merge up to an entry, as a tar archive.
func (s *Source) Archive(ctx context.Context, seq uint64, branch string, to io.Writer) error {
	if s.Commits == nil {
		return api.Errorf(api.CodeBadState, "workspace %s is not a git repository: it has no target", s.Workspace)
	}
	t, err := s.Target(ctx, seq, branch)
	if err != nil {
		return err
	}
	tree, err := s.Commits.Tree(ctx, t.Commit)
	if err != nil {
		return err
	}
	if tree == "" {
		return api.Errorf(api.CodeRepoCorrupt, "commit %s, which branch %s had at entry %d, is not in the repository, or its files are missing", t.Commit, t.Branch, t.Entry).
			WithHint("restore the repository from a backup: docs/backup.md")
	}
	return s.Commits.Archive(ctx, tree, to)
}
