package worktree

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/filtered"
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

// Sparse has git of an agent's worktree read which files are not checked out from
// the directory of objects that it finds at published in its sandbox; "" undoes
// that. The agent must be stopped: its part of the git directory is its to write.
func (w *Workspace) Sparse(agent, published string) error {
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "write the sparse checkout of agent %s: %w", agent, err)
	}
	root, err := w.openAdmin(agent)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	const name = filtered.SparseFile
	to := filepath.Join(published, name)
	switch now, err := root.Readlink(name); {
	case err == nil && published != "" && now == to:
		return nil
	case published == "" && (err != nil || !strings.HasSuffix(now, "/"+name)):
		return nil // there is none, or it is the agent's own
	}
	if err := root.Mkdir(filepath.Dir(name), 0o755); err == nil {
		err = root.Lchown(filepath.Dir(name), int(w.cfg.UID), int(w.cfg.GID))
		if err != nil {
			return fail(err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if published == "" {
		return nil
	}
	if err := root.Symlink(to, name); err != nil {
		return fail(err)
	}
	return nil
}
