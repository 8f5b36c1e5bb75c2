package worktree

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/lfs"
	"polis/daemon/host/private"
	"polis/fusefs/fdtree"
)

// onlyOwnLFS lists the LFS objects that only an agent has. If the project is not there, these are all.
func (w *Workspace) onlyOwnLFS(ctx context.Context, agent string) (map[string]bool, error) {
	own, err := w.ownData(agent, lfsObjects)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer own.Close()
	only := map[string]bool{}
	var all []lfs.Pointer
	err = lfs.List(ctx, own, func(p lfs.Pointer) error {
		only[p.OID] = true
		all = append(all, p)
		return nil
	})
	if err != nil || len(all) == 0 {
		return nil, err
	}
	p, err := w.Project(ctx)
	if err != nil || p == nil {
		return only, nil //nolint:nilerr // nothing is known to be there
	}
	err = p.openLFS(p.lfsDir(ctx), false, func(f *os.File) error {
		for _, o := range all {
			has, err := lfs.Has(f, o)
			if err != nil {
				return err
			}
			if has {
				delete(only, o.OID)
			}
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return only, err
}

// dataWork lists what tools keep in an agent's part of the git directory that is nowhere else: LFS objects that the
// target names (those of other commits count with their commits), and contents of git-annex.
func (w *Workspace) dataWork(ctx context.Context, agent string) []NestedWork {
	var work []NestedWork
	lost, err := w.lostLFS(ctx, agent)
	switch {
	case err != nil:
		work = append(work, NestedWork{Path: lfsObjects, Why: "the objects of Git LFS cannot be compared: " + err.Error()})
	case lost > 0:
		work = append(work, NestedWork{Path: lfsObjects, Why: api.Count(lost, "object") + " of Git LFS that the target names"})
	}
	annex, err := w.ownData(agent, annexObjects)
	if errors.Is(err, fs.ErrNotExist) {
		return work
	}
	if err == nil {
		defer annex.Close()
		_, err = annex.ReadDir(1)
	}
	if !errors.Is(err, io.EOF) {
		work = append(work, NestedWork{Path: annexObjects, Why: "git-annex has contents there, which polis does not compare: git annex move or drop them"})
	}
	return work
}

// lostLFS counts the LFS objects that the target names and only an agent has.
func (w *Workspace) lostLFS(ctx context.Context, agent string) (int, error) {
	only, err := w.onlyOwnLFS(ctx, agent)
	if len(only) == 0 || err != nil {
		return 0, err
	}
	target, err := w.Target(ctx)
	if err != nil {
		return 0, err
	}
	ids := map[string]bool{}
	if err := w.Bare().Files(ctx, git.Branch(target), func(_, id string) error { ids[id] = true; return nil }); err != nil {
		return 0, err
	}
	named, err := w.pointersIn(ctx, ids)
	lost := 0
	for _, p := range named {
		if only[p.OID] {
			lost++
			delete(only, p.OID)
		}
	}
	return lost, err
}

// dataDirs are the directories of an agent's part of the git directory that are saved, restored and copied with it,
// each in the one above it. Others can have secrets (git-crypt), or are caches.
var dataDirs = []string{lfsObjects, annexObjects}

// dataName is the name of such a directory in a copy.
func dataName(dir string) string { return filepath.Dir(dir) }

// copyData copies the data of an agent that the project does not have to a directory, which must exist. It returns the
// names of what it made there.
func (w *Workspace) copyData(ctx context.Context, agent, to string) (made []string, err error) {
	only, err := w.onlyOwnLFS(ctx, agent)
	if err != nil {
		return nil, err
	}
	for _, dir := range dataDirs {
		if dir == lfsObjects && len(only) == 0 {
			continue
		}
		from, err := w.ownData(agent, dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return made, err
		}
		err = copyOf(ctx, from, filepath.Join(to, dataName(dir)), func(path string, st *unix.Stat_t) bool {
			return dir == lfsObjects && st.Mode&unix.S_IFMT == unix.S_IFREG && !only[filepath.Base(path)]
		})
		if err = errors.Join(err, from.Close()); err != nil {
			return made, err
		}
		made = append(made, dataName(dir))
	}
	return made, nil
}

// copyOf copies a tree to a directory in one of root's, which it makes.
func copyOf(ctx context.Context, from *os.File, to string, skip func(string, *unix.Stat_t) bool) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	dst, err := openDir(to, to)
	if err != nil {
		return err
	}
	defer dst.Close()
	c := fdtree.Copier{Whole: true, Skip: skip}
	return c.Copy(ctx, int(from.Fd()), int(dst.Fd()))
}

// takeData gives an agent the data that copyData has copied. The directory stays without them.
func (w *Workspace) takeData(ctx context.Context, agent string, from *os.Root) error {
	if err := private.Within(w.layout().Privates()); err != nil {
		return err
	}
	all, err := os.OpenRoot(w.layout().Privates())
	if err != nil {
		return err
	}
	defer all.Close()
	for _, dir := range dataDirs {
		src, err := from.OpenFile(dataName(dir), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		defer src.Close()
		for _, at := range []string{agent, filepath.Join(agent, dataName(dir)), filepath.Join(agent, dir)} {
			err := all.Mkdir(at, 0o700)
			if err == nil {
				err = w.giveDir(all, at)
			}
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		dst, err := all.OpenFile(filepath.Join(agent, dir), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		if err != nil {
			return err
		}
		defer dst.Close()
		c := fdtree.Copier{Whole: true}
		if err := c.Copy(ctx, int(src.Fd()), int(dst.Fd())); err != nil {
			return err
		}
	}
	return nil
}
