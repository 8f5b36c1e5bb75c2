package worktree

import (
	"bytes"
	"context"

	"polis/daemon/api"
	"polis/daemon/git"
)

// Withhold marks the tracked files that the agent's rules hide from it as unchanged in the index:
// a git that finds one changed or cannot read it would fail, or record a removal. It returns how
// many there are.
func (w *Workspace) Withhold(ctx context.Context, agent string, v View, withheld func(path string) bool) (int, error) {
	fail := func(err error) (int, error) {
		return 0, api.Errorf(api.CodeWorktreeFailed, "mark what agent %s may not read: %w", agent, err)
	}
	out, err := w.Bare().Do(ctx, w.cmd(agent, v, "", "ls-files", "-z", "--cached"))
	if err != nil {
		return fail(err)
	}
	var names bytes.Buffer
	n := 0
	for _, p := range git.SplitNUL(out) {
		if withheld(p) {
			names.WriteString(p + "\x00")
			n++
		}
	}
	if n == 0 {
		return 0, nil
	}
	c := w.cmd(agent, v, "", "update-index", "-z", "--skip-worktree", "--stdin")
	c.Stdin = &names
	if _, err := w.Bare().Do(ctx, c); err != nil {
		return fail(err)
	}
	return n, nil
}
