package base

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
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// checkoutTime bounds each git command over a base.
const checkoutTime = 30 * time.Minute

// make checks out a base; the lock of id is held.
func (s *Store) make(ctx context.Context, id string) (Base, error) {
	fail := func(err error) (Base, error) {
		return Base{}, api.Errorf(api.CodeWorktreeFailed, "make the base tree %s: %w", id, err)
	}
	began := s.cfg.Now()
	if err := private.Dir(s.cfg.Dir); err != nil {
		return fail(err)
	}
	tmp := s.dir(id) + partial
	b := at(tmp, id)
	resumed := true
	if err := os.Mkdir(tmp, 0o700); err == nil {
		resumed = false
	} else if !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	if err := os.Mkdir(b.Tree, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	if err := s.give(b.Tree); err != nil {
		return fail(err)
	}
	failpoint.Hit("base:directory")
	if _, err := s.fill(ctx, b, resumed); err != nil {
		return fail(err)
	}
	failpoint.Hit("base:filled")
	if err := s.writeRecord(tmp, id, began, false); err != nil {
		return fail(err)
	}
	failpoint.Hit("base:recorded")
	if err := os.Rename(tmp, s.dir(id)); err != nil {
		return fail(err)
	}
	s.cfg.Log.Info("base tree made", "op", "base", "path", s.dir(id), "resumed", resumed, "took", s.cfg.Now().Sub(began))
	return at(s.dir(id), id), nil
}

func (s *Store) give(path string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	return os.Lchown(path, int(s.cfg.UID), int(s.cfg.GID))
}

func (s *Store) writeRecord(dir, id string, began time.Time, synced bool) error {
	fi, err := os.Lstat(filepath.Join(dir, "index"))
	if err != nil {
		return err
	}
	return store.WriteSummed(filepath.Join(dir, recordName), record{Version: recordVersion, Tree: id, Made: s.cfg.Now().UTC(), Boot: BootID(), Synced: synced,
		IndexBytes: fi.Size(), Took: s.cfg.Now().Sub(began).Milliseconds()})
}

// checkout is the files of a base together with the index that git works on.
type checkout struct {
	s     *Store
	b     Base
	index string
}

func (c *checkout) git(ctx context.Context, args ...string) ([]byte, error) {
	shown := c.b.Tree
	var under *git.Under
	if os.Geteuid() == 0 {
		// The user cannot search the directory of bases: the command finds the files there under
		// another name.
		root, err := os.OpenFile(c.b.Tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer root.Close()
		under = &git.Under{Parent: c.s.cfg.Dir, Name: c.b.ID, Root: root}
		shown = filepath.Join(c.s.cfg.Dir, c.b.ID)
	}
	return c.s.cfg.Repo.Do(ctx, git.Cmd{Args: args, WorkTree: shown, Index: c.index, Dir: c.s.cfg.Repo.Dir, Write: []string{shown}, Timeout: checkoutTime, Under: under})
}

// fill makes the files and the index of b equal to its git tree. Only files that differ are
// written, and returned if there was anything before.
func (s *Store) fill(ctx context.Context, b Base, existing bool) (differ []string, err error) {
	tmp, err := s.cfg.Scratch()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	c := &checkout{s: s, b: b, index: filepath.Join(tmp, "index")}
	if existing {
		differ, err = c.again(ctx)
	} else {
		// One command, as git-worktree(1): checkout-index would read and write the index once more.
		_, err = c.git(ctx, "read-tree", "--reset", "-u", b.ID)
	}
	if err != nil {
		return nil, err
	}
	failpoint.Hit("base:written")
	return differ, s.takeIndex(c.index, b.Index)
}

// again makes files that exist equal to the tree, and returns those that differed.
func (c *checkout) again(ctx context.Context) (differ []string, err error) {
	if _, err := c.git(ctx, "read-tree", c.b.ID); err != nil {
		return nil, err
	}
	if differ, err = c.differing(ctx); err != nil {
		return nil, err
	}
	if err := c.removeAll(ctx, differ); err != nil {
		return nil, err
	}
	_, err = c.git(ctx, "checkout-index", "--all", "--force", "--index", "--quiet")
	return differ, err
}

// differing compares the content of all files with the tree. It returns the paths that the tree
// does not have, or has with another content.
func (c *checkout) differing(ctx context.Context) ([]string, error) {
	_, err := c.git(ctx, "update-index", "-q", "--really-refresh", "--ignore-submodules")
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) { // 1: something differs
		return nil, err
	}
	out, err := c.git(ctx, "diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	other, err := c.git(ctx, "ls-files", "-z", "--others")
	if err != nil {
		return nil, err
	}
	return append(git.SplitNUL(other), git.SplitNUL(out)...), nil
}

// removeAll removes paths: of another owner or kind, git may not be able to replace them.
func (c *checkout) removeAll(ctx context.Context, paths []string) error {
	root, err := os.OpenRoot(c.b.Tree)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range paths {
		if err := remove(ctx, root, strings.TrimSuffix(name, "/")); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a name below root; without its directory it is removed already.
func remove(ctx context.Context, root *os.Root, name string) error {
	dir, err := root.Open(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	err = fdtree.RemoveAt(ctx, int(dir.Fd()), filepath.Base(name), name)
	if errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	return err
}

// ErrInUse: the base cannot be checked while an overlay has it as its lower layer, because the
// kernel does not define what a change does then.
var ErrInUse = errors.New("the base tree is in use")

// Check compares all files of a base with its git tree, writes those that differ again, and returns
// their paths. For a base that is in use it returns ErrInUse.
func (s *Store) Check(ctx context.Context, id string) ([]string, error) {
	done, err := s.lock(ctx, id)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.repair(ctx, id)
}

// repair is Check; the lock of id is held.
func (s *Store) repair(ctx context.Context, id string) ([]string, error) {
	fail := func(err error) ([]string, error) {
		return nil, api.Errorf(api.CodeWorktreeFailed, "check the base tree %s: %w", id, err)
	}
	if used, err := s.cfg.InUse(id); err != nil || used {
		return fail(errors.Join(err, ErrInUse))
	}
	dir, began := s.dir(id), s.cfg.Now()
	b := at(dir, id)
	// Without a record nobody takes it for complete while it is checked.
	if err := os.Remove(filepath.Join(dir, recordName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fail(err)
	}
	if err := os.Mkdir(b.Tree, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(err)
	}
	if err := s.give(b.Tree); err != nil {
		return fail(err)
	}
	failpoint.Hit("base:unrecorded")
	differ, err := s.fill(ctx, b, true)
	if err != nil {
		return fail(err)
	}
	if err := syncDir(dir); err != nil {
		return fail(err)
	}
	if err := s.writeRecord(dir, id, began, true); err != nil {
		return fail(err)
	}
	if len(differ) > 0 {
		s.cfg.Log.Warn("base tree was damaged and is whole again", "op", "base", "path", dir, "count", len(differ), "paths", differ[:min(len(differ), 10)])
	}
	return differ, nil
}

// syncDir writes the file system of a directory to the disk.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if err := unix.Syncfs(int(dir.Fd())); err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}

// Sync writes all bases to the disk that are not known to be there.
func (s *Store) Sync(ctx context.Context) error {
	ids, err := s.List()
	for _, id := range ids {
		err = errors.Join(err, s.sync(ctx, id))
	}
	return err
}

func (s *Store) sync(ctx context.Context, id string) error {
	done, err := s.lock(ctx, id)
	if err != nil {
		return err
	}
	defer done()
	r, err := s.read(id)
	if err != nil || r.Synced || r.Boot != BootID() {
		return nil //nolint:nilerr // its next use checks it
	}
	if err := syncDir(s.dir(id)); err != nil {
		return err
	}
	r.Synced = true
	return store.WriteSummed(filepath.Join(s.dir(id), recordName), r)
}
