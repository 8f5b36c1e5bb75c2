package merge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/git"
	"polis/daemon/git/worktree"
	"polis/internal/asuser"
)

const (
	// maxWorktrees bounds the linked worktrees of the project that are read.
	maxWorktrees = 1000
	// maxStateFile bounds a file in which git keeps the state of an operation, in bytes.
	maxStateFile = 64 << 10
)

// operation is what git has begun in a worktree and not ended.
type operation struct {
	name     string
	end      string   // the command that ends it, after the worktree's path
	refs     []string // that it moves when it ends, beside what HEAD is on
	worktree string   // "" is the project's own
}

// InProgress returns what git has begun, and not ended, with a branch in the project or in one of its linked worktrees, and the
// command that ends it; nil if nothing is. The checkout of the branch stays as it is until then.
func InProgress(ctx context.Context, p *worktree.Project, target string) (reason error, command string, err error) { //nolint:revive,staticcheck // err is that of the search
	return busy(ctx, p, target)
}

// busy returns why a branch must not move: an operation in progress in the project or in one of its linked
// worktrees, as "git rebase" or "git am", compares it with where it began, or works on it.
func busy(ctx context.Context, p *worktree.Project, target string) (reason error, command string, err error) { //nolint:revive,staticcheck // err is that of the search
	var found *operation
	ref := git.Branch(target)
	err = asuser.Do(p.Owner.UID, p.Owner.GID, func() error {
		dirs, err := gitDirs(p.Dir)
		if err != nil {
			return err
		}
		for i, dir := range dirs {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			op := begun(dir)
			if op == nil {
				continue
			}
			if head := stateFile(dir, "HEAD"); head != "ref: "+ref && !slices.Contains(op.refs, ref) {
				continue
			}
			if i > 0 {
				op.worktree = strings.TrimSuffix(stateFile(dir, "gitdir"), "/.git")
			}
			found = op
			return nil
		}
		return nil
	})
	if err != nil || found == nil {
		return nil, "", err
	}
	at, where := p.Path, "in the checkout"
	if found.worktree != "" {
		at, where = found.worktree, "in "+found.worktree
	}
	return fmt.Errorf("%s is in progress %s, on branch %s", found.name, where, target), fmt.Sprintf("git -C %s %s", api.ShellWord(at), found.end), nil
}

// gitDirs are the git directory of a checkout and those of the other worktrees of its repository.
func gitDirs(dir string) ([]string, error) {
	dirs, common := []string{dir}, dir
	if to := stateFile(dir, "commondir"); to != "" {
		if common = to; !filepath.IsAbs(to) {
			common = filepath.Join(dir, to)
		}
		dirs = append(dirs, common)
	}
	f, err := os.Open(filepath.Join(common, "worktrees"))
	if errors.Is(err, fs.ErrNotExist) {
		return dirs, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxWorktrees)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	for _, name := range names {
		if d := filepath.Join(common, "worktrees", name); d != filepath.Clean(dir) {
			dirs = append(dirs, d)
		}
	}
	return dirs, nil
}

// begun returns the operation in progress of a worktree, nil if there is none. Its files are those that
// git-status(1) reads.
func begun(dir string) *operation {
	has := func(name string) bool { _, err := os.Lstat(filepath.Join(dir, name)); return err == nil }
	switch {
	case has("rebase-merge"):
		refs := []string{stateFile(dir, "rebase-merge/head-name")}
		for line := range strings.Lines(stateFile(dir, "rebase-merge/update-refs")) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "refs/") {
				refs = append(refs, line)
			}
		}
		return &operation{name: "a rebase", end: "rebase --continue", refs: refs}
	case has("rebase-apply/applying"):
		return &operation{name: "git am", end: "am --continue"}
	case has("rebase-apply"):
		return &operation{name: "a rebase", end: "rebase --continue", refs: []string{stateFile(dir, "rebase-apply/head-name")}}
	case has("MERGE_HEAD"):
		return &operation{name: "a merge", end: "merge --continue"}
	case has("CHERRY_PICK_HEAD"):
		return &operation{name: "a cherry-pick", end: "cherry-pick --continue"}
	case has("REVERT_HEAD"):
		return &operation{name: "a revert", end: "revert --continue"}
	case has("sequencer"): // between two commits
		return &operation{name: "a cherry-pick or revert", end: "cherry-pick --continue"}
	case has("BISECT_LOG"):
		start := stateFile(dir, "BISECT_START")
		return &operation{name: "a bisect", end: "bisect reset", refs: []string{start, git.Branch(start)}}
	}
	return nil
}

// stateFile reads a small file of a git directory; "" if there is none.
func stateFile(dir, name string) string {
	f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return ""
	}
	b, err := io.ReadAll(io.LimitReader(f, maxStateFile))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
