package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/rules/cone"
	"polis/internal/asuser"
)

// OwnersCone returns the cone of the project's own checkout, as the git of its owner has it; nil if the owner has checked
// out all files. home returns the home of a user. Patterns that are those of no cone are an error. Without patterns it
// starts no git.
func (w *Workspace) OwnersCone(ctx context.Context, home func(uid uint32) string) (*cone.Cone, error) {
	r, dir, err := w.Open()
	if err != nil {
		return nil, nil //nolint:nilerr,nilnil // what makes the worktree reports it
	}
	defer dir.Close()
	err = asuser.Do(r.UID, r.GID, func() error {
		var st unix.Stat_t
		return unix.Fstatat(int(dir.Fd()), filepath.Join(".git", patternFile), &st, unix.AT_SYMLINK_NOFOLLOW)
	})
	if errors.Is(err, unix.ENOENT) {
		return nil, nil //nolint:nilnil // all files
	}
	p, err := w.inspect(ctx, r, dir)
	if err != nil || p == nil {
		return nil, nil //nolint:nilerr,nilnil // as above
	}
	return p.Cone(ctx, home(p.Owner.UID))
}

// Cone is OwnersCone for an owner with this home. .git can be a file: the project is then a linked worktree.
func (p *Project) Cone(ctx context.Context, home string) (*cone.Cone, error) {
	path := filepath.Join(p.Dir, patternFile)
	text, err := p.readAsOwner(path, cone.MaxText)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil //nolint:nilnil // all files
	}
	on, gerr := p.Do(ctx, owners(home, "config", "--type=bool", "--get", "core.sparseCheckout"))
	if code, ok := git.ExitCode(gerr); gerr != nil && (!ok || code != 1) {
		return nil, fmt.Errorf("read the configuration of the project's owner: %w", gerr)
	}
	if strings.TrimSpace(string(on)) != "true" {
		return nil, nil //nolint:nilnil // git left the patterns of an earlier one
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	c, err := cone.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &c, nil
}

// SparseDirs returns the directories of a sparse checkout that is not in cone mode, if all of its patterns name one from the top.
func (p *Project) SparseDirs() (dirs []string, ok bool) {
	text, err := p.readAsOwner(filepath.Join(p.Dir, patternFile), cone.MaxText)
	if err != nil {
		return nil, false
	}
	for _, line := range patterns(text) {
		dir, top := strings.CutPrefix(line, "/")
		dir, closed := strings.CutSuffix(dir, "/")
		if !top || !closed || dir == "" || strings.ContainsAny(dir, "*?[\\\r\"") {
			return nil, false
		}
		dirs = append(dirs, dir)
	}
	return dirs, len(dirs) > 0
}

// MissingDirs returns those of some directories that the target's commit has not.
func (w *Workspace) MissingDirs(ctx context.Context, dirs []string) ([]string, error) {
	target, err := w.Target(ctx)
	if err != nil || len(dirs) == 0 {
		return nil, err
	}
	out, err := w.Bare().Do(ctx, git.Cmd{Args: append([]string{"ls-tree", "-d", "-z", "--name-only", "--end-of-options", git.Branch(target)}, dirs...)})
	if err != nil {
		return nil, err
	}
	there := map[string]bool{}
	for _, dir := range git.SplitNUL(out) {
		there[dir] = true
	}
	var missing []string
	for _, dir := range dirs {
		if !there[dir] {
			missing = append(missing, dir)
		}
	}
	return missing, nil
}
