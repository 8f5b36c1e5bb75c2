package worktree

import (
	"context"
	"strings"

	"polis/daemon/git"
)

// changing reports what differs between two commits, because the files of an agent become those of the
// second below its view.
func (w *Workspace) changing(ctx context.Context, agent, from, to string) error {
	if w.cfg.Changing == nil {
		return nil
	}
	out, err := w.Bare().Run(ctx, "diff-tree", "-r", "-t", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", from, to)
	if err != nil {
		return err
	}
	changes, err := parseRaw(out)
	if err != nil {
		return err
	}
	fields := git.SplitNUL(out)
	var paths []string
	for i, c := range changes {
		before, _, _ := strings.Cut(strings.TrimPrefix(fields[2*i], ":"), " ")
		if c.mode == before && c.mode == "040000" {
			continue // it stays; what differs in it has a line
		}
		paths = append(paths, c.path)
	}
	if len(paths) == 0 {
		return nil
	}
	return w.cfg.Changing(ctx, agent, paths)
}
