package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/base"
	"polis/daemon/store/layout"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// Mounts mounts the layers of worktrees that are a base tree with changes above it (package
// fusefs/overlayfs).
type Mounts interface {
	// Mount shows the lower directories, the earlier above the later ones, with the changes of upper
	// at target. work is the mount's own.
	Mount(lower []string, upper, work, target string) error
	// MountReadOnly shows dirs at target, each of which covers those after it, as they are now.
	MountReadOnly(target string, dirs ...*os.File) error
	// Mounted reports whether target has such a mount, and Unmount ends it, if there is one.
	Mounted(target string) (bool, error)
	Unmount(target string) error
	// Changes lists the paths at or below which upper changes lower, without a name that is skipped
	// in every directory. More than most is an error.
	Changes(ctx context.Context, lower, upper *os.File, skip string, most int) ([]string, error)
}

func (w *Workspace) layout() layout.Workspace { return layout.Workspace(w.cfg.Workspace) }

// scratch makes a temporary directory of the owner's.
func (w *Workspace) scratch(prefix string) (string, error) {
	return (&upper{spec: Spec{UID: w.cfg.UID, GID: w.cfg.GID}, w: w}).scratch(prefix)
}

// Bases are the base trees of the workspace.
func (w *Workspace) Bases() *base.Store { return w.bases }

func (w *Workspace) newBases() *base.Store {
	return base.New(base.Config{Dir: w.layout().Bases(), Repo: w.Bare(), UID: w.cfg.UID, GID: w.cfg.GID,
		Scratch: func() (string, error) { return w.scratch("save-") }, InUse: w.baseMounted, Log: w.cfg.Log, Now: w.cfg.Now})
}

// baseOf returns the id of the base below a worktree; "" for a full checkout.
func (w *Workspace) baseOf(agent string) (string, error) {
	return readBase(w.layout().LayersBase(agent))
}

// readBase reads a file that names a base; "" if it is missing.
func readBase(path string) (string, error) {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := readSmall(root, filepath.Base(path))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	id := strings.TrimSpace(text)
	if !git.IsOID(id) {
		return "", fmt.Errorf("%s names no base tree: %q", path, api.Shorten(id, 80))
	}
	return id, nil
}

// writeBase records the base of a worktree. From here on Collect keeps the base.
func writeBase(path, id string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(id + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// fillShared makes an agent's worktree from the base tree of its commit, or one near it, and then removes the lock
// of the worktree. The worktree's own directory becomes the upper layer: it contains .git and, from
// now on, what the agent changes. id is the tree of the commit, "" if it is not known yet.
func (w *Workspace) fillShared(ctx context.Context, agent, commit, id string) (err error) {
	if id == "" {
		if id, err = w.Bare().Line(ctx, "rev-parse", "--verify", "--end-of-options", commit+"^{tree}"); err != nil {
			return err
		}
	}
	if err := w.dropLayers(ctx, agent); err != nil { // of a crash
		return err
	}
	l := w.layout()
	for _, dir := range []string{filepath.Dir(l.Layers(agent)), l.Layers(agent), l.LayersWork(agent), l.LayersMerged(agent)} {
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	failpoint.Hit("layers:directories")
	from := w.nearBase(ctx, agent, id)
	err = w.bases.Use(ctx, from, func(b base.Base) error {
		if err := writeBase(l.LayersBase(agent), from); err != nil {
			return err
		}
		failpoint.Hit("layers:claimed")
		return w.copyBaseIndex(agent, b.Index)
	})
	if err != nil {
		return err
	}
	failpoint.Hit("layers:indexed")
	w.claimSetup(ctx, agent, id)
	if err := w.Attach(ctx, agent); err != nil {
		return err
	}
	failpoint.Hit("layers:mounted")
	if from != id {
		if err := w.advance(ctx, agent, from, id); err != nil {
			return err
		}
	}
	return w.unlock(agent)
}

// copyBaseIndex gives a worktree the prepared index: a clone of its blocks, if the file system can
// make one, else a copy. A second name for the file would let the agent write into it.
func (w *Workspace) copyBaseIndex(agent, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	return w.copyIndex(admin, "index", src)
}

// Attach mounts the layers of an agent's worktree, if it has any and they are not mounted. It must
// precede every access to the files.
func (w *Workspace) Attach(ctx context.Context, agent string) error {
	_, err := w.attach(ctx, agent)
	return err
}

// attach is Attach. It returns the directory in which the files are below the view: "" for a full
// checkout, whose files are in the worktree's own directory.
func (w *Workspace) attach(ctx context.Context, agent string) (string, error) {
	if id, err := w.baseOf(agent); err != nil || id == "" {
		return "", err
	}
	fail := func(err error) (string, error) {
		return "", api.Errorf(api.CodeWorktreeFailed, "mount the worktree of %s over its base tree: %w", agent, err)
	}
	if w.cfg.Mounts == nil {
		return fail(errors.New("this program mounts none"))
	}
	done, err := w.lockMount(ctx, agent)
	if err != nil {
		return "", err
	}
	defer done()
	id, err := w.baseOf(agent) // it may have been removed meanwhile
	if err != nil || id == "" {
		return "", err
	}
	l := w.layout()
	if err := w.leaveAbove(agent); err != nil {
		return fail(err)
	}
	there, err := w.cfg.Mounts.Mounted(l.LayersMerged(agent))
	if err != nil {
		return fail(err)
	}
	if there {
		return l.LayersMerged(agent), nil
	}
	// Anything but the worktree itself would become the upper layer, such as a view that covers it.
	if err := w.uncovered(agent, api.CodeWorktreeFailed); err != nil {
		return "", err
	}
	// A base that was removed by hand is made again: the agent's own changes are whole. Until the
	// mount shows that the base is in use, no check may write to it.
	err = w.bases.Use(ctx, id, func(b base.Base) error {
		if err := w.makeMountDirs(agent); err != nil {
			return err
		}
		return w.cfg.Mounts.Mount(w.lowerLayers(agent, b), w.tree(agent), l.LayersWork(agent), l.LayersMerged(agent))
	})
	if err != nil {
		return fail(err)
	}
	return l.LayersMerged(agent), nil
}

// lockMount waits for the lock of an agent's mount. Who moves or removes the layers holds it from
// Detach on, or a reader of the worktree would mount them again.
func (w *Workspace) lockMount(ctx context.Context, agent string) (func(), error) {
	return w.exclusive(ctx, agent+"/mount") // no agent has such a name
}

// mountTime bounds a mount; the check of a base after a reboot is part of it.
const mountTime = 10 * time.Minute

// openMerged opens the files of a worktree that has layers; nil for a full checkout.
func (w *Workspace) openMerged(ctx context.Context, agent string) (*os.File, error) {
	ctx, cancel := context.WithTimeout(ctx, mountTime)
	defer cancel()
	if is, err := w.above(agent); is || err != nil {
		if err != nil {
			return nil, err
		}
		return w.openFresh(ctx, agent)
	}
	dir, err := w.attach(ctx, agent)
	if dir == "" || err != nil {
		return nil, err
	}
	var merged *os.File
	err = w.below(dir, func(path string) (err error) { merged, err = openDir(path, agent); return err })
	return merged, err
}

func openDir(dir, agent string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open the worktree of %s: %w", agent, err)
	}
	return os.NewFile(uintptr(fd), agent), nil
}

// Detach unmounts the layers of a worktree. The agent's changes stay in the worktree's directory.
func (w *Workspace) Detach(agent string) error {
	if w.cfg.Mounts == nil {
		return nil
	}
	if err := w.cfg.Mounts.Unmount(w.layout().LayersMerged(agent)); err != nil {
		return api.Errorf(api.CodeWorktreeFailed, "unmount the worktree of %s: %w", agent, err)
	}
	return nil
}

// DetachAll unmounts the layers of all worktrees that no view covers, and those of checks and setup
// commands: no shim uses them.
func (w *Workspace) DetachAll() error {
	names, err := w.layered()
	for _, agent := range names {
		if covered, merr := mounted(w.tree(agent)); merr != nil || covered {
			err = errors.Join(err, merr)
			continue
		}
		err = errors.Join(err, w.Detach(agent))
	}
	err = errors.Join(err, w.EndCheck(w.layout().Check()))
	runs, rerr := w.setupRuns()
	err = errors.Join(err, rerr)
	for _, dir := range runs {
		err = errors.Join(err, w.UnmountSetup(dir))
	}
	return err
}

// dropLayers removes what belongs to the layers of a worktree besides the agent's changes.
func (w *Workspace) dropLayers(ctx context.Context, agent string) error {
	done, err := w.lockMount(ctx, agent)
	if err != nil {
		return err
	}
	defer done()
	if err := w.Detach(agent); err != nil {
		return err
	}
	return fdtree.RemoveAll(ctx, w.layout().Layers(agent))
}
