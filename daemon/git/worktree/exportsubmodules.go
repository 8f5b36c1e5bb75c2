package worktree

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/gitindex"
	"polis/daemon/git/nested"
	"polis/fusefs/fdtree"
)

// Export writes the files of a commit to dir, which must be empty and belong to the workspace's
// owner, and those of its submodules as far as the project has them. It makes no repository there.
func (w *Workspace) Export(ctx context.Context, commit, dir string) (err error) {
	tmp, err := (&upper{spec: Spec{UID: w.cfg.UID, GID: w.cfg.GID}, w: w}).scratch("export-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	_, err = w.Bare().Do(ctx, git.Cmd{Args: []string{"read-tree", "--reset", "-u", commit},
		WorkTree: dir, Write: []string{dir}, Index: filepath.Join(tmp, "index"), Dir: dir, Timeout: checkoutTimeout})
	if err == nil {
		err = w.exportInside(ctx, commit, dir, tmp)
	}
	if err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "write the files of %s: %w", commit, err)
	}
	return nil
}

// exportInside is exportSubmodules for the index in a scratch directory.
func (w *Workspace) exportInside(ctx context.Context, commit, dir, scratch string) error {
	root, err := os.OpenRoot(scratch)
	if err != nil {
		return err
	}
	defer root.Close()
	text, _, err := indexBytes(root)
	if err != nil || !gitindex.HasGitlinks(text) {
		return err
	}
	return w.exportSubmodules(ctx, commit, dir, text)
}

// exportSubmodules writes the files of the submodules of a commit to a directory that has its own files, nested ones too,
// from the project's repositories of them. One that cannot be written stays empty; why is logged.
func (w *Workspace) exportSubmodules(ctx context.Context, commit, dir string, index []byte) (err error) {
	x, err := parseIndex(index)
	if err != nil {
		return err
	}
	links := x.Gitlinks()
	if len(links) == 0 {
		return nil
	}
	names, err := moduleNames(ctx, w.Bare(), commit)
	if err != nil || len(names) == 0 {
		return err
	}
	p, err := w.Project(ctx)
	if err != nil || p == nil {
		return err
	}
	tmp, err := w.scratch("export-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	e := &exporter{nestedReader: &nestedReader{w: w, tmp: tmp, owner: p}, dir: dir}
	e.each(ctx, "", "", names, links, 0, e.export)
	return context.Cause(ctx)
}

// exporter writes the submodules of one commit.
type exporter struct {
	*nestedReader
	dir string
}

func (e *exporter) export(ctx context.Context, name, module, commit string, depth int) error {
	err := e.owner.module(module, func(dir *os.File) error {
		_, err := nested.Borrowable(dir)
		return err
	})
	if err != nil {
		return err
	}
	r, err := e.repo(commit, filepath.Join(e.owner.Dir, nestedModules, module, "objects"))
	if err != nil {
		return err
	}
	_, err = r.Do(ctx, git.Cmd{Args: []string{"read-tree", "--reset", "-u", commit}, WorkTree: filepath.Join(e.dir, name), Index: filepath.Join(r.Dir, "index"), Dir: r.Dir,
		Write: []string{e.dir}, Timeout: checkoutTimeout, Config: []string{"core.bare=false"}})
	if err != nil {
		return err
	}
	root, err := openScratch(r.Dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names, links, err := submodulesOf(ctx, r, root, commit)
	if err != nil {
		return err
	}
	e.each(ctx, name, module, names, links, depth+1, e.export)
	return nil
}
