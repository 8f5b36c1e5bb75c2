package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/base"
	"polis/daemon/host/cage"
	"polis/daemon/rules/cone"
	"polis/internal/keylock"
)

// Locks takes the leases of refs in the daemon's table. A nil Locks takes none.
type Locks interface {
	// AcquireRef waits, within its own bound, for the lease of a full ref name.
	AcquireRef(ctx context.Context, ref string) (release func(), err error)
}

// Config is the location and the owner of a workspace.
type Config struct {
	// Workspace is the directory that holds project and .polis, absolute.
	Workspace string
	// UID and GID own the bare repository and the worktrees.
	UID, GID uint32
	// Git is the git program; "git" if empty.
	Git   string
	Log   *slog.Logger
	Locks Locks
	// Taken names the agent, other than the given one, that works on a branch, "" if none does.
	// If nil, the HEADs of the worktrees are read, which agents write.
	Taken func(branch, agent string) string
	// Mounts mounts the layers of worktrees; nil: all worktrees are full checkouts.
	Mounts Mounts
	// Shared reports whether a new worktree is a base tree with the agent's changes above it. If
	// nil, it is a full checkout.
	Shared func() bool
	// Cone returns the cone that the worktree of an agent is made with (package cone); nil: it has all files. If the
	// function is nil, so has every worktree.
	Cone func(agent string) *cone.Cone
	// Withheld returns the lines of patterns by which git checks out none of the files that an agent's rules
	// withhold; "" if they withhold none. If nil, no rules do.
	Withheld func(agent string) string
	// Setups has what the setup command made for base trees; nil: nothing.
	Setups Setups
	// Changing is called before files of an agent that exists change below its view, with their paths and
	// those of directories that come or go. If nil, nothing keeps them.
	Changing func(ctx context.Context, agent string, paths []string) error
	// Changed is called with each error PROJECT_CHANGED, and with nil when the project is the recorded one. It
	// may be nil.
	Changed func(error)
	// Trashed is called with where the broken worktree of an agent was moved when a new one is made, and why it was
	// broken. It may be nil.
	Trashed func(agent, dir string, why error)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
	// SaveTime bounds one Save; 30 seconds if 0.
	SaveTime time.Duration
}

// Workspace is the git side of one workspace. It is safe for concurrent use;
// one daemon has one Workspace for a directory.
type Workspace struct {
	cfg   Config
	bases *base.Store
	locks keylock.Set // of agents' worktrees, by name
	// minIndex is the size of a base's index from which on git reads only what can differ.
	minIndex int64
	racy     racyFiles // of indexes that Settle has read
}

// Open returns the workspace at cfg.Workspace. It reads nothing yet.
func Open(cfg Config) *Workspace {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.SaveTime == 0 {
		cfg.SaveTime = saveTime
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	w := &Workspace{cfg: cfg, minIndex: minBaseIndex}
	w.bases = w.newBases()
	return w
}

func (w *Workspace) polis() string         { return filepath.Join(w.cfg.Workspace, ".polis") }
func (w *Workspace) bareDir() string       { return filepath.Join(w.polis(), "bare-repo.git") }
func (w *Workspace) treesDir() string      { return filepath.Join(w.polis(), "worktrees") }
func (w *Workspace) trashDir() string      { return filepath.Join(w.polis(), "trash") }
func (w *Workspace) linkPath() string      { return filepath.Join(w.cfg.Workspace, "project") }
func (w *Workspace) tree(a string) string  { return filepath.Join(w.treesDir(), a) }
func (w *Workspace) admin(a string) string { return filepath.Join(w.bareDir(), "worktrees", a) }

func (w *Workspace) runner(uid, gid uint32) *git.Runner {
	return &git.Runner{UID: uid, GID: gid, Git: w.cfg.Git, Log: w.cfg.Log}
}

// Bare is the shared repository, as its owner.
func (w *Workspace) Bare() git.Repo {
	return git.Repo{Runner: w.runner(w.cfg.UID, w.cfg.GID), Dir: w.bareDir()}
}

// errNoTarget reports a shared repository whose HEAD names no branch.
var errNoTarget = errors.New("the shared repository names no target branch")

// Target is the branch that merges go to: what the shared repository's HEAD names.
func (w *Workspace) Target(context.Context) (string, error) {
	if err := w.guard(); err != nil {
		return "", err
	}
	// As git-symbolic-ref(1) would; this is called at every operation.
	root, err := w.openBare()
	if err != nil {
		return "", api.Errorf(api.CodeRepoCorrupt, "read the target branch: %w", err)
	}
	defer root.Close()
	head, err := readSmall(root, "HEAD")
	if err != nil {
		return "", api.Errorf(api.CodeRepoCorrupt, "read the target branch: %w", err)
	}
	name, ok := strings.CutPrefix(strings.TrimSuffix(head, "\n"), "ref: refs/heads/")
	if !ok || git.CheckBranch(name) != nil {
		return "", api.Errorf(api.CodeRepoCorrupt, "%w", errNoTarget).
			WithHint("polisctl up --repo PATH --target BRANCH %s sets it", w.cfg.Workspace)
	}
	return name, nil
}

// guard rejects a shared repository whose configuration or hooks could have been changed by
// another user than the daemon: git takes commands from both.
func (w *Workspace) guard() error {
	if err := caged(); err != nil {
		return err
	}
	if err := w.placed(); err != nil {
		return err
	}
	return w.guardDir(w.bareDir())
}

// Guard is guard for a caller that runs git outside of the cage in the shared or in the internal repository.
func (w *Workspace) Guard() error { return w.guardInternal() }

// guardInternal is guard, for the internal repository too.
func (w *Workspace) guardInternal() error { return errors.Join(w.guard(), w.guardDir(w.internalDir())) }

func (w *Workspace) guardDir(dir string) error {
	for _, name := range []string{"config", "hooks"} {
		fi, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				return api.Errorf(api.CodeWorkspaceNotFound, "%s has no shared repository", w.cfg.Workspace).
					WithHint("polisctl up --repo PATH %s makes it", w.cfg.Workspace)
			}
			return api.Errorf(api.CodeRepoCorrupt, "%s has no %s", dir, name)
		}
		if err != nil {
			return fmt.Errorf("inspect the shared repository: %w", err)
		}
		mode := fi.Mode()
		kind := mode.IsRegular() && name == "config" || mode.IsDir() && name == "hooks"
		if !kind || mode.Perm()&0o022 != 0 || owner(fi) != uint32(os.Geteuid()) {
			return api.Errorf(api.CodeRepoCorrupt, "%s is not the daemon's own any more (%s, uid %d)", filepath.Join(dir, name), mode, owner(fi)).
				WithHint("git takes commands from it, so polis does not run git there; find out what changed it, then chown it to root again")
		}
	}
	for _, name := range []string{"commondir", "config.worktree"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return api.Errorf(api.CodeRepoCorrupt, "%s must not exist: it redirects git", filepath.Join(dir, name))
		}
	}
	return nil
}

// caged returns an error if git cannot be confined here. The kernel is queried once.
func caged() error {
	if err := cage.Probe(); err != nil {
		return api.Errorf(api.CodeCageUnavailable, "git over what agents write cannot be confined: %w", err).
			WithHint("Linux 5.13 or newer with Landlock and seccomp is needed; polisctl doctor shows details")
	}
	return nil
}

func owner(fi fs.FileInfo) uint32 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return st.Uid
	}
	return ^uint32(0) // no user's: every check fails
}

// exclusive waits for the lock of an agent's worktree.
func (w *Workspace) exclusive(ctx context.Context, agent string) (func(), error) {
	unlock, err := w.locks.Lock(ctx, agent)
	if err != nil {
		return nil, api.Errorf(api.CodeTimeout, "wait for the worktree of %s: %w", agent, err)
	}
	return unlock, nil
}

// acquire takes the lease of a ref, if there is a lock table.
func (w *Workspace) acquire(ctx context.Context, ref string) (func(), error) {
	if w.cfg.Locks == nil {
		return func() {}, nil
	}
	return w.cfg.Locks.AcquireRef(ctx, ref)
}

// mounted reports whether path is a mount point. It does not query the server of a view, which
// may hang.
func mounted(path string) (bool, error) {
	st, err := statx(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case errors.Is(err, unix.ENOTCONN): // a view whose server has died
		return true, nil
	case err != nil:
		return false, err
	}
	return st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0, nil
}

// isDir reports whether path is a directory, or the place of a dead view.
func isDir(path string) (bool, error) {
	st, err := statx(path)
	if errors.Is(err, unix.ENOTCONN) {
		return true, nil
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR, err
}

func statx(path string) (unix.Statx_t, error) {
	var st unix.Statx_t
	flags := unix.AT_SYMLINK_NOFOLLOW | unix.AT_NO_AUTOMOUNT | unix.AT_STATX_DONT_SYNC
	if err := unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_TYPE, &st); err != nil {
		return st, &fs.PathError{Op: "statx", Path: path, Err: err}
	}
	return st, nil
}

// uncovered returns an error if a view covers a worktree.
func (w *Workspace) uncovered(agent string, code api.Code) error {
	there, err := mounted(w.tree(agent))
	if err != nil {
		return api.Errorf(code, "read the worktree of %s: %w", agent, err)
	}
	if there {
		return api.Errorf(code, "a view is mounted at %s", w.tree(agent)).
			WithHint("stop the agent first: polisctl agents stop %s; what a crash left, polisctl patrol run --once removes", agent)
	}
	return nil
}
