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
// a git that finds one changed or cannot read it would fail, or record a removal. withheld returns the
// same for equal keys. The agent must be stopped.
func (w *Workspace) Withhold(ctx context.Context, agent string, v View, key string, withheld func(path string) bool) error {
	kept, done, err := w.takeMarked(ctx, agent, key)
	if err != nil {
		w.cfg.Log.Warn("kept index of a base tree not used; git marks the files", "agent", agent, "err", err)
	}
	if done {
		return nil
	}
	if err := w.markWithheld(ctx, agent, v, withheld); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "mark what agent %s may not read: %w", agent, err)
	}
	if kept == nil {
		return nil
	}
	if err := kept.keep(w, agent); err != nil {
		w.cfg.Log.Warn("index of a base tree not kept for agents with the same rules", "agent", agent, "err", err)
	}
	return nil
}

func (w *Workspace) markWithheld(ctx context.Context, agent string, v View, withheld func(path string) bool) error {
	out, err := w.Bare().Do(ctx, w.cmd(agent, v, "", "ls-files", "-z", "-t", "--cached"))
	if err != nil {
		return err
	}
	var names bytes.Buffer
	for _, p := range git.SplitNUL(out) {
		tag, name, _ := strings.Cut(p, " ")
		if tag != skipped && withheld(name) {
			names.WriteString(name + "\x00")
		}
	}
	if names.Len() == 0 {
		return nil
	}
	c := w.cmd(agent, v, "", "update-index", "-z", "--skip-worktree", "--stdin")
	c.Stdin = &names
	_, err = w.Bare().Do(ctx, c)
	return err
}

// skipped is the tag that git ls-files -t gives a file that has the mark already.
const skipped = "S"

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
