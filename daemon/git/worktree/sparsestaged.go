package worktree

import (
	"context"
	"fmt"
	"strings"
)

// stagedOutside returns what the saved index of an agent has outside its cone and the commit of its HEAD has not: git
// checks none of these files out, and the agent made them. They lose the mark of a sparse checkout.
func (w *Workspace) stagedOutside(ctx context.Context, agent, head, index string) ([]change, error) {
	c := w.Cone(ctx, agent)
	if c == nil || head == "" {
		return nil, nil
	}
	out, err := w.Internal().Run(ctx, "diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", "--end-of-options", head, index)
	if err != nil {
		return nil, fmt.Errorf("compare the index with its commit: %w", err)
	}
	all, err := parseRaw(out)
	if err != nil {
		return nil, err
	}
	var write []change
	var names strings.Builder
	for _, f := range all {
		if f.mode != "000000" && f.mode != "160000" && !c.Contains(f.path) {
			write = append(write, f)
			names.WriteString(f.path + "\x00")
		}
	}
	if len(write) == 0 {
		return nil, nil
	}
	mark := w.cmd(agent, View{}, "", "update-index", "-z", "--no-skip-worktree", "--stdin")
	mark.Stdin = strings.NewReader(names.String())
	if _, err := w.Bare().Do(ctx, mark); err != nil {
		return nil, fmt.Errorf("restore the index: %w", err)
	}
	return write, nil
}
