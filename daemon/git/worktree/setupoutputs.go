package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/base"
	"polis/fusefs/fdtree"
)

// SetupOutputs returns the topmost names that git ignores of what the setup command of a run wrote.
// No process of it runs any more. Its changes of tracked files are not among them, nor is what git
// would show as untracked. The .gitignore files of the base decide, and those in directories that the
// command made; others that it made are deleted, because they would change what agents can commit.
func (w *Workspace) SetupOutputs(ctx context.Context, dir, tree string) (names []string, err error) {
	fail := func(err error) ([]string, error) {
		return nil, api.Errorf(api.CodeWorktreeFailed, "list what the setup command made: %w", err)
	}
	if err := w.cfg.Mounts.Unmount(filepath.Join(dir, setupMerged)); err != nil {
		return fail(err)
	}
	err = w.bases.Use(ctx, tree, func(b base.Base) error {
		for range maxIgnoreRounds {
			if names, err = w.ignoredIn(ctx, dir, b); err != nil {
				return err
			}
			if again, err := dropIgnoreFiles(dir, b, names); err != nil || !again {
				return err
			}
		}
		return errors.New("its .gitignore files ignore each other")
	})
	if err != nil {
		return fail(err)
	}
	return names, nil
}

// maxIgnoreRounds bounds how often the names are listed again, because a deleted .gitignore file does
// not ignore the next one any more.
const maxIgnoreRounds = 8

// ignoredIn lists what git ignores in a run, as agents will see its files.
func (w *Workspace) ignoredIn(ctx context.Context, dir string, b base.Base) (names []string, err error) {
	shown := filepath.Join(dir, setupShown)
	tree, err := openPath(unix.AT_FDCWD, b.Tree)
	if err != nil {
		return nil, err
	}
	defer tree.Close()
	upper, err := openPath(unix.AT_FDCWD, filepath.Join(dir, setupUpper))
	if err != nil {
		return nil, err
	}
	defer upper.Close()
	if err := w.cfg.Mounts.MountReadOnly(shown, tree, upper); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.cfg.Mounts.Unmount(shown)) }()
	tmp, err := w.scratch("save-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	index := filepath.Join(tmp, "index")
	if _, err := w.Bare().Do(ctx, git.Cmd{Args: []string{"read-tree", b.ID}, Index: index}); err != nil {
		return nil, err
	}
	cmd := git.Cmd{Args: []string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--no-empty-directory"},
		Index: index, WorkTree: shown, Dir: w.bareDir(), Timeout: checkoutTimeout}
	if os.Geteuid() == 0 {
		// The user cannot search the directory of the run.
		root, err := os.OpenFile(shown, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		cmd.WorkTree, cmd.Under = filepath.Join(w.layout().Setups(), setupShown), &git.Under{Parent: w.layout().Setups(), Name: setupShown, Root: root}
	}
	out, err := w.Bare().Do(ctx, cmd)
	return git.SplitNUL(out), err
}

// dropIgnoreFiles deletes the .gitignore files among names that are in directories of the base, and
// reports whether there were any. Git lists names, not what they lead to: each is in real directories.
func dropIgnoreFiles(dir string, b base.Base, names []string) (dropped bool, err error) {
	tracked, err := os.OpenRoot(b.Tree)
	if err != nil {
		return false, err
	}
	defer tracked.Close()
	made, err := os.OpenRoot(filepath.Join(dir, setupUpper))
	if err != nil {
		return false, err
	}
	defer made.Close()
	for _, name := range names {
		if filepath.Base(name) != ".gitignore" || strings.HasSuffix(name, "/") {
			continue
		}
		if _, err := tracked.Lstat(filepath.Dir(name)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := made.Remove(name); err != nil {
			return dropped, err
		}
		dropped = true
	}
	return dropped, nil
}
