package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"polis/daemon/api"
	"polis/daemon/store"
	"polis/internal/failpoint"
)

// The directory of a check has the files of the commit in checkFiles. If the setup command made files
// for such a commit, checkSetup names them, and checkMerged shows both: the overlay's upper layer is
// checkFiles, so that the check writes nothing that agents share.
const (
	checkFiles  = "tree"
	checkSetup  = "setup"
	checkWork   = "work"
	checkMerged = "merged"
)

// PrepareCheck shows the files of a commit, which are in dir/tree, with what the setup command made for
// a commit with these inputs, and returns where. It makes nothing: what is merged is not reviewed yet,
// and must not decide what all agents get. Without such files it returns dir/tree.
func (w *Workspace) PrepareCheck(ctx context.Context, commit, dir string) (string, error) {
	files := filepath.Join(dir, checkFiles)
	if w.cfg.Setups == nil || w.cfg.Mounts == nil {
		return files, nil
	}
	fail := func(err error) (string, error) {
		return "", api.Errorf(api.CodeWorktreeFailed, "add the files of the setup command to the tree of the check: %w", err)
	}
	tree, err := w.Bare().Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}")
	if err != nil {
		return fail(err)
	}
	var r *SetupRecord
	err = w.cfg.Setups.ClaimMade(ctx, tree, func(made SetupRecord) error {
		r = &made
		return store.WriteSummed(filepath.Join(dir, checkSetup), made)
	})
	if err != nil {
		return fail(err)
	}
	if r == nil {
		return files, nil
	}
	made, err := w.cfg.Setups.Tree(r.ID)
	if err != nil {
		return fail(err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{checkWork, checkMerged} {
		if err := os.Mkdir(at(name), 0o700); err != nil {
			return fail(err)
		}
	}
	if err := w.cfg.Mounts.Mount([]string{made}, files, at(checkWork), at(checkMerged)); err != nil {
		return fail(err)
	}
	failpoint.Hit("check:mounted")
	return at(checkMerged), nil
}

// EndCheck ends what PrepareCheck mounted. Nothing uses it any more.
func (w *Workspace) EndCheck(dir string) error {
	if w.cfg.Mounts == nil {
		return nil
	}
	if err := w.cfg.Mounts.Unmount(filepath.Join(dir, checkMerged)); err != nil {
		return fmt.Errorf("unmount the tree of a check: %w", err)
	}
	return nil
}

// checkUses returns what a check uses of the setup command: nil if it uses nothing.
func (w *Workspace) checkUses() (*SetupRecord, error) {
	r, err := ReadSetup(filepath.Join(w.layout().Check(), checkSetup))
	if err != nil {
		return nil, errors.Join(errors.New("read which setup files the check has"), err)
	}
	return r, nil
}
