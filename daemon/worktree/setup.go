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
	"polis/daemon/base"
	"polis/daemon/git"
	"polis/daemon/layout"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
)

// Setups has the files that the setup command of the project made (package setup): a directory that
// is below the base tree of a worktree, so that it adds names and never changes a tracked file.
type Setups interface {
	// Claim calls claim with the files that were made for a git tree, if there are any and the agent
	// may read them. Until claim returns they are not removed.
	Claim(ctx context.Context, agent, tree string, claim func(SetupRecord) error) error
	// ClaimMade is Claim for a check, which reads all files: it does not ask for files that are missing.
	ClaimMade(ctx context.Context, tree string, claim func(SetupRecord) error) error
	// Tree returns the directory of the files called id. Its error wraps fs.ErrNotExist if they are
	// missing.
	Tree(id string) (string, error)
}

// SetupRecord is the content of layout.Workspace.LayersSetup.
type SetupRecord struct {
	ID string `json:"id"`
	// Outputs are the topmost names of the files, some of them if there are many.
	Outputs []string `json:"outputs"`
}

// ReadSetup reads the file that names the setup files of a worktree; nil if it has none.
func ReadSetup(path string) (*SetupRecord, error) {
	var r SetupRecord
	err := store.ReadSummed(path, &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // most worktrees have none
	}
	return &r, err
}

// claimSetup records what the setup command made for a new worktree. An agent starts without it if it
// is missing, or cannot be recorded.
func (w *Workspace) claimSetup(ctx context.Context, agent, tree string) {
	if w.cfg.Setups == nil {
		return
	}
	err := w.cfg.Setups.Claim(ctx, agent, tree, func(r SetupRecord) error {
		return store.WriteSummed(w.layout().LayersSetup(agent), r)
	})
	if err != nil {
		w.cfg.Log.Warn("agent starts without the files of the setup command", "agent", agent, "op", "setup", "err", err)
	}
}

// lowerLayers returns the lower layers of a worktree: the base, and below it what the setup command made.
// The agent's own changes are whole without the latter.
func (w *Workspace) lowerLayers(agent string, b base.Base) []string {
	tree, err := w.setupTree(agent)
	if err != nil {
		w.cfg.Log.Error("files of the setup command are missing in a worktree", "agent", agent, "op", "setup", "err", err)
	}
	if tree == "" {
		return []string{b.Tree}
	}
	return []string{b.Tree, tree}
}

// setupTree returns the directory of what the setup command made for a worktree; "" if it has none. Its
// error wraps fs.ErrNotExist if it had one, which is missing.
func (w *Workspace) setupTree(agent string) (string, error) {
	r, err := ReadSetup(w.layout().LayersSetup(agent))
	if err != nil || r == nil || w.cfg.Setups == nil {
		return "", err
	}
	return w.cfg.Setups.Tree(r.ID)
}

// SetupsUsed returns the agents whose worktrees have setup files, by the name of the files, and
// layout.CheckUser for those that a check has.
func (w *Workspace) SetupsUsed() (map[string][]string, error) {
	names, err := w.layered()
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, agent := range names {
		r, err := ReadSetup(w.layout().LayersSetup(agent))
		if err != nil {
			return nil, api.Errorf(api.CodeWorktreeFailed, "read which setup files %s has: %w", agent, err)
		}
		if r != nil {
			out[r.ID] = append(out[r.ID], agent)
		}
	}
	r, err := w.checkUses()
	if err == nil && r != nil {
		out[r.ID] = append(out[r.ID], layout.CheckUser)
	}
	return out, err
}

// A run of the setup command has a directory <setups>/<id>.new with these names: the id of its base,
// what the command writes, the overlay's own directory, where the command sees its files, and where
// those are shown as agents will see them.
const (
	setupRun    = ".new"
	setupBase   = "base"
	setupUpper  = "upper"
	setupWork   = "work"
	setupMerged = "merged"
	setupShown  = "shown"
)

// setupRuns returns the directories of the runs.
func (w *Workspace) setupRuns() ([]string, error) {
	entries, err := os.ReadDir(w.layout().Setups())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, api.Errorf(api.CodeWorktreeFailed, "list the runs of the setup command: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && strings.HasSuffix(e.Name(), setupRun) {
			out = append(out, filepath.Join(w.layout().Setups(), e.Name()))
		}
	}
	return out, nil
}

// setupMounted reports whether the base is the lower layer of a run's mount.
func (w *Workspace) setupMounted(id string) (bool, error) {
	runs, err := w.setupRuns()
	if err != nil {
		return true, err
	}
	for _, dir := range runs {
		of, err := readBase(filepath.Join(dir, setupBase))
		if err != nil {
			return true, err
		}
		for _, name := range []string{setupMerged, setupShown} {
			if of != id {
				continue
			}
			if there, err := w.cfg.Mounts.Mounted(filepath.Join(dir, name)); err != nil || there {
				return true, err
			}
		}
	}
	return false, nil
}

// MountSetup mounts the base of a git tree for a run of the setup command, and returns where. The
// directory of the run exists and is empty. What the command writes is stored in the returned upper
// directory.
func (w *Workspace) MountSetup(ctx context.Context, dir, tree string) (merged, upper string, err error) {
	fail := func(err error) (string, string, error) {
		return "", "", api.Errorf(api.CodeWorktreeFailed, "mount the base tree %s for the setup command: %w", tree, err)
	}
	if w.cfg.Mounts == nil {
		return fail(errors.New("this program mounts none"))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{setupUpper, setupWork, setupMerged, setupShown} {
		if err := os.Mkdir(at(name), 0o755); err != nil {
			return fail(err)
		}
	}
	if err := give(at(setupUpper), w.cfg.UID, w.cfg.GID); err != nil {
		return fail(err)
	}
	err = w.bases.Use(ctx, tree, func(b base.Base) error {
		if err := writeBase(at(setupBase), tree); err != nil {
			return err
		}
		return w.cfg.Mounts.Mount([]string{b.Tree}, at(setupUpper), at(setupWork), at(setupMerged))
	})
	if err != nil {
		return fail(err)
	}
	return at(setupMerged), at(setupUpper), nil
}

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

// UnmountSetup ends the mounts of a run.
func (w *Workspace) UnmountSetup(dir string) error {
	if w.cfg.Mounts == nil {
		return nil
	}
	var errs []error
	for _, name := range []string{setupMerged, setupShown} {
		errs = append(errs, w.cfg.Mounts.Unmount(filepath.Join(dir, name)))
	}
	return errors.Join(errs...)
}
