package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git/base"
	"polis/daemon/store"
	"polis/daemon/store/layout"
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
