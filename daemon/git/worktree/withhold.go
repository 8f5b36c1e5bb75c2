package worktree

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/filtered"
)

// Withhold marks the tracked files that the agent's rules hide from it as unchanged in the index:
// a git that finds one changed or cannot read it would fail, or record a removal. Files that rules withheld
// before lose the mark: the agent may change them now. withheld returns the same for equal keys; with the
// key "" it returns false. The agent must be stopped.
func (w *Workspace) Withhold(ctx context.Context, agent string, v View, key string, withheld func(path string) bool) error {
	var kept *marked
	var done bool
	var err error
	if key != "" {
		kept, done, err = w.takeMarked(ctx, agent, key)
	}
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
	var hide, show bytes.Buffer
	again := map[string]bool{}
	for _, p := range git.SplitNUL(out) {
		switch tag, name, _ := strings.Cut(p, " "); {
		case tag != skipped && withheld(name):
			hide.WriteString(name + "\x00")
		case tag == skipped && !withheld(name):
			again[name] = true
		}
	}
	if len(again) > 0 {
		names, compared, err := w.showable(ctx, agent, v, again)
		if err != nil {
			return err
		}
		if compared { // else a file that is not among names can have work that is in no commit
			names = append(names, w.checkoutAgain(ctx, agent, v, again, names)...)
		}
		for _, name := range names {
			show.WriteString(name + "\x00")
		}
	}
	for _, u := range []struct {
		names *bytes.Buffer
		flag  string
	}{{&show, "--no-skip-worktree"}, {&hide, "--skip-worktree"}} {
		if u.names.Len() == 0 {
			continue
		}
		c := w.cmd(agent, v, "", "update-index", "-z", u.flag, "--stdin")
		c.Stdin = u.names
		if _, err := w.Bare().Do(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// showable returns those of names whose mark hides nothing but what the agent has changed, or would see as
// unchanged. The others keep it: git did not replace them when it merged, and would see them as reverted. compared is
// false for an index that polis does not read.
func (w *Workspace) showable(ctx context.Context, agent string, v View, names map[string]bool) (out []string, compared bool, err error) {
	f, fi, err := w.Index(agent)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if fi.Size() > maxIndex {
		return nil, false, nil
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	if err != nil {
		return nil, false, err
	}
	x, err := parseIndex(text)
	if err != nil {
		return nil, false, nil //nolint:nilerr // removal counts the files as changed if they are
	}
	if _, err := w.unmark(ctx, agent, v, x, func(name string) bool { return names[name] }); err != nil {
		return nil, false, err
	}
	for i := range x.Entries {
		if e := &x.Entries[i]; names[e.Name] && !x.Skipped(i) {
			out = append(out, e.Name)
		}
	}
	return out, true, nil
}

// skipped is the tag that git ls-files -t gives a file that has the mark already.
const skipped = "S"

// Patterned reports whether git of an agent's worktree reads patterns that Sparse has put there.
func (w *Workspace) Patterned(agent string) bool {
	root, err := w.openAdmin(agent)
	if err != nil {
		return false
	}
	defer root.Close()
	to, err := root.Readlink(patternFile)
	return err == nil && strings.Contains(to, "/"+filtered.SparseFile)
}

// Sparse has git of an agent's worktree read which files are not checked out from a file that it finds at a path in its
// sandbox, in the directory of the objects there; "" undoes that. The agent must be stopped: its part of the git
// directory is its to write.
func (w *Workspace) Sparse(agent, to string) error {
	fail := func(err error) error {
		return api.Errorf(api.CodeWorktreeFailed, "write the sparse checkout of agent %s: %w", agent, err)
	}
	root, err := w.openAdmin(agent)
	if err != nil {
		return fail(err)
	}
	defer root.Close()
	const name = patternFile
	switch now, err := root.Readlink(name); {
	case err == nil && to != "" && now == to:
		return nil
	case to == "" && (err != nil || !strings.Contains(now, "/"+filtered.SparseFile)):
		return nil // there is none, or it is the agent's own
	}
	if err := w.makeInfo(root); err != nil {
		return fail(err)
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if to == "" {
		return nil
	}
	if err := root.Symlink(to, name); err != nil {
		return fail(err)
	}
	return nil
}

// Give adds objects of the shared repository to those that only an agent has: it may read them.
func (w *Workspace) Give(ctx context.Context, agent string, ids []string) error {
	own := w.ownDir(agent)
	if fi, err := os.Lstat(own); err != nil || !fi.IsDir() {
		return api.Errorf(api.CodeWorktreeMissing, "agent %s has no objects of its own", agent)
	}
	return w.Bare().Give(ctx, own, ids)
}
