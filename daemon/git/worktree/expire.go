package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/fusefs/fdtree"
)

// keptDir is a directory that was moved to the trash because git could not store it: the rest of
// a broken worktree, or one with repositories inside.
type keptDir struct {
	Path  string
	Agent string
	Time  time.Time
}

// trashDirs lists the directories in the trash.
func (w *Workspace) trashDirs() ([]keptDir, error) {
	entries, err := os.ReadDir(w.trashDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "list the trash: %w", err)
	}
	var out []keptDir
	for _, e := range entries {
		// <agent>.<time>.<random>; the time contains a dot.
		agent, rest, _ := strings.Cut(e.Name(), ".")
		at := strings.LastIndexByte(rest, '.')
		if api.CheckName(agent) != nil || at < 0 {
			continue
		}
		when, err := time.Parse(stampFormat, rest[:at])
		if err != nil {
			continue
		}
		out = append(out, keptDir{Path: filepath.Join(w.trashDir(), e.Name()), Agent: agent, Time: when})
	}
	return out, nil
}

// trashSize is how many bytes in the repository only this trash ref keeps.
func (w *Workspace) trashSize(ctx context.Context, ref string) (int64, error) {
	fail := func(err error) (int64, error) {
		return 0, api.Errorf(api.CodeRepoCorrupt, "measure %s: %w", ref, err)
	}
	var revs strings.Builder
	for _, r := range []git.Repo{w.Internal(), w.Bare()} {
		refs, err := r.Refs(ctx)
		if err != nil {
			return fail(err)
		}
		for name, id := range refs {
			if name == ref {
				fmt.Fprintln(&revs, id)
			} else {
				fmt.Fprintln(&revs, "^"+id)
			}
		}
	}
	out, err := w.Internal().Do(ctx, git.Cmd{Args: []string{"rev-list", "--disk-usage", "--objects", "--stdin"}, Stdin: strings.NewReader(revs.String())})
	if err != nil {
		return fail(err)
	}
	return strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
}

// dirSize returns how many bytes the files below path take on the disk. An agent
// made the tree: it may be deeper than a path can name.
func dirSize(ctx context.Context, path string) (n int64, err error) {
	top, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(top)
	err = fdtree.Walk(ctx, top, func(e *fdtree.Entry) error {
		n += e.Stat.Blocks * 512
		return nil
	})
	return n, err
}

// dropRef deletes one trash ref; its work is lost.
func (w *Workspace) dropRef(ctx context.Context, t TrashRef) error {
	if !strings.HasPrefix(t.Ref, trashPrefix) {
		return fmt.Errorf("%q is not a ref of the trash", t.Ref)
	}
	if err := w.Internal().Delete(ctx, t.Ref, t.Commit); err != nil {
		return api.Errorf(api.CodeRepoCorrupt, "delete %s: %w", t.Ref, err)
	}
	w.cfg.Log.Info("work in the trash deleted", "agent", t.Agent, "op", "gc", "path", t.Ref)
	return nil
}

// DropTrash deletes one trash ref, if it exists; its work is lost.
func (w *Workspace) DropTrash(ctx context.Context, ref string) error {
	if err := w.guardInternal(); err != nil {
		return err
	}
	t, _, err := w.trashed(ctx, ref)
	switch {
	case err == nil:
		return errors.Join(w.dropRef(ctx, t), w.dropNested(ctx, ref))
	case api.CodeOf(err) != api.CodeNotFound:
		return err
	}
	return nil
}

// dropDir deletes a directory of trashDirs; its work is lost.
func (w *Workspace) dropDir(ctx context.Context, t keptDir) error {
	if err := fdtree.RemoveAll(ctx, filepath.Join(w.trashDir(), filepath.Base(t.Path))); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "delete %s: %w", t.Path, err)
	}
	w.cfg.Log.Info("work in the trash deleted", "agent", t.Agent, "op", "gc", "path", t.Path)
	return nil
}
