package worktree

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
)

// madeNames lists the topmost names of what the setup command made for a worktree, beside those of its
// base tree. The record of a result has only the first of them.
func (w *Workspace) madeNames(ctx context.Context, agent, base string) ([]string, error) {
	dir, err := w.setupTree(agent)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it is missing in the worktree, too
	}
	if dir == "" || err != nil {
		return nil, err
	}
	lower, err := openDir(base, base)
	if err != nil {
		return nil, err
	}
	defer lower.Close()
	made, err := openDir(dir, dir)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	return w.cfg.Mounts.Changes(ctx, lower, made, ".git", maxChanges)
}

// others lists the untracked files that are saved: directories of other repositories end with a slash.
func (s *saver) others(ctx context.Context) ([]string, error) {
	list := []string{"ls-files", "-z", "--others"}
	if !s.opt.Ignored {
		list = append(list, "--exclude-standard")
	}
	out, err := s.git(ctx, nil, s.within(list)...)
	names := git.SplitNUL(out)
	if err != nil || !s.opt.Ignored || s.opt.Made {
		return names, err
	}
	return s.withoutMade(ctx, names)
}

// withoutMade removes the names of ignored files that the agent has from the setup command and has not
// changed: they are no work, and can be very many. Each agent that starts from the same inputs has them.
func (s *saver) withoutMade(ctx context.Context, names []string) ([]string, error) {
	dir, err := s.w.setupTree(s.agent)
	if errors.Is(err, fs.ErrNotExist) || dir == "" && err == nil {
		return names, nil
	}
	if err != nil {
		return nil, err
	}
	out, err := s.git(ctx, nil, s.within([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard"})...)
	if err != nil {
		return nil, err
	}
	ignored := map[string]bool{}
	for _, name := range git.SplitNUL(out) {
		ignored[name] = true
	}
	made, err := openDir(dir, dir)
	if err != nil {
		return nil, err
	}
	defer made.Close()
	own, err := s.w.uncoveredDir(s.agent)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	shown, err := s.w.lower(s.agent, s.opt.View)
	if err != nil {
		return nil, err
	}
	defer shown.Close()
	return slices.DeleteFunc(names, func(name string) bool {
		return ignored[name] && unchanged(name, own, made, shown)
	}), nil
}

// unchanged reports whether a worktree shows a file of the setup command: the agent has none of that
// name, and it is the same inode. Overlayfs keeps inode numbers if the layers are on one file system;
// elsewhere the file counts as changed.
func unchanged(name string, own, made, shown *os.File) bool {
	name = strings.TrimSuffix(name, "/")
	if f, err := openBelow(own, name, unix.O_PATH|unix.O_NOFOLLOW); err == nil {
		_ = f.Close() //nolint:errcheck // nothing was written
		return false
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	a, err := statBelow(shown, name)
	if err != nil {
		return false
	}
	b, err := statBelow(made, name)
	return err == nil && a.Ino == b.Ino && a.Mode == b.Mode && a.Size == b.Size && a.Mtim == b.Mtim
}

func statBelow(root *os.File, name string) (st unix.Stat_t, err error) {
	f, err := openBelow(root, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return st, err
	}
	defer f.Close()
	return st, unix.Fstat(int(f.Fd()), &st)
}
