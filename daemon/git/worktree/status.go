package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"polis/daemon/api"
	"polis/daemon/git"
)

// maxNames bounds the file names a Status carries.
const maxNames = 100

// Status is the git status of an agent's worktree.
type Status struct {
	Branch string // empty if HEAD is detached
	Head   string // empty if there is no commit
	// Counts of files. Conflicted are unmerged; a directory of untracked files counts once.
	Staged, Unstaged, Untracked, Conflicted int
	// Paths are some of those files, as git stores the names: any bytes but NUL.
	Paths []string
	// Ahead counts commits that the target branch does not have, Behind those
	// that only the target has.
	Ahead, Behind int
	// Merged: the target branch has every commit.
	Merged bool
	// Nested is work in repositories inside the worktree, such as submodules. Each counts as an unstaged file.
	Nested []NestedWork
}

// Dirty reports whether there is work that no commit holds.
func (s Status) Dirty() bool { return s.Staged+s.Unstaged+s.Untracked+s.Conflicted > 0 }

// View is how to reach a worktree that a view may cover.
type View struct {
	// Root is a descriptor of the directory below the view. If nil, the worktree is reached
	// through a clone of its parent's mount without the mounts in it, which needs root.
	Root *os.File
}

// cmd is a git command in an agent's worktree. The common directory is named
// here, not by the commondir file, which the agent can write.
func (w *Workspace) cmd(agent string, v View, index string, args ...string) git.Cmd {
	c := git.Cmd{
		Args: args, GitDir: w.admin(agent), CommonDir: w.bareDir(), WorkTree: w.tree(agent), Index: index,
		// Not the worktree: git would follow a .git that it finds there.
		Dir: w.bareDir(),
		// Git would write the shared part of an agent's split index into its git directory, which can be one for this command.
		Config: []string{"core.splitIndex=false"},
	}
	with := w.of(agent)
	c.Objects, c.Alternates = with.Objects, with.Alternates
	c.Under = w.under(agent, v)
	return c
}

// under shows a git the worktree of an agent, which its user cannot reach: only root may enter
// the directory of worktrees.
func (w *Workspace) under(agent string, v View) *git.Under {
	if v.Root == nil && os.Geteuid() != 0 {
		return nil
	}
	return &git.Under{Parent: w.treesDir(), Name: agent, Root: v.Root, Open: func(ctx context.Context) (*os.File, error) { return w.openMerged(ctx, agent) }}
}

// Status reads the worktree below the view, without changing it. branch is the agent's own
// branch, whose commits count even if the worktree is on another one.
func (w *Workspace) Status(ctx context.Context, agent, branch string, v View) (Status, error) {
	s, _, err := w.status(ctx, agent, branch, v)
	return s, err
}

// status is Status, together with the tips whose history is complete.
func (w *Workspace) status(ctx context.Context, agent, branch string, v View) (Status, []string, error) {
	if err := w.usable(agent); err != nil {
		return Status{}, nil, err
	}
	target, err := w.Target(ctx)
	if err != nil {
		return Status{}, nil, err
	}
	fail := func(what string, err error) (Status, []string, error) {
		return Status{}, nil, api.Errorf(api.CodeWorktreeFailed, "%s of %s: %w", what, agent, err)
	}
	// Starting git is most of the cost: the files and the commits are read in parallel.
	var out []byte
	var ferr error
	var files sync.WaitGroup
	files.Go(func() {
		out, ferr = w.readFiles(ctx, agent, v, "status", "--porcelain=v2", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=all")
		if ferr == nil {
			out, ferr = w.smudged(ctx, agent, v, out)
		}
	})
	var inside []NestedWork
	var nerr error
	files.Go(func() { inside, nerr = w.nestedWork(ctx, agent, v) })
	c, err := w.commits(ctx, agent, branch, target)
	files.Wait()
	if nerr != nil {
		return fail("read the repositories in the worktree", nerr)
	}
	if ferr != nil {
		return fail("read the worktree", ferr)
	}
	s, perr := parseStatus(out)
	if perr != nil {
		return fail("read the worktree", perr)
	}
	if err != nil {
		return fail("read the commits", err)
	}
	s.addNested(inside)
	s.Branch = w.read(agent).Branch
	s.Head, s.Ahead, s.Behind = c.head, c.ahead, c.behind
	s.Merged = s.Ahead == 0
	return s, c.tips, nil
}

// usable rejects an invalid name and a worktree that could mislead git.
func (w *Workspace) usable(agent string) error {
	if err := api.CheckName(agent); err != nil {
		return err
	}
	if err := w.guard(); err != nil {
		return err
	}
	t := w.read(agent)
	if errors.Is(t.Broken, errAbsent) {
		return api.Errorf(api.CodeWorktreeMissing, "agent %s has no worktree", agent)
	}
	// Every path that a command reads is passed explicitly, so the links between the two halves
	// do not matter; both must exist.
	for _, dir := range []string{t.GitDir, t.Path} {
		if there, err := isDir(dir); err != nil || !there {
			return api.Errorf(api.CodeWorktreeMissing, "the worktree of %s is not whole: %s is no directory", agent, dir).
				WithHint("polisctl agents remove %s --force saves what is left in the trash", agent)
		}
	}
	return nil
}

// head is the commit a worktree is on; empty on a branch without commits. Its
// HEAD is read as a file and resolved in the shared repository: git itself finds
// refs by the commondir file, whatever GIT_COMMON_DIR says, and the agent can write that.
func (w *Workspace) head(ctx context.Context, agent string) (string, error) {
	root, err := w.openAdmin(agent)
	if err != nil {
		return "", err
	}
	defer root.Close()
	text, err := readSmall(root, "HEAD")
	if err != nil {
		return "", fmt.Errorf("read HEAD: %w", err)
	}
	text = strings.TrimSpace(text)
	name, symbolic := strings.CutPrefix(text, "ref: refs/heads/")
	var commit string
	switch {
	case symbolic && git.CheckBranch(name) == nil:
		commit, err = w.Bare().Commit(ctx, git.Branch(name))
	case git.IsOID(text):
		commit, err = w.of(agent).Commit(ctx, text)
	default:
		return "", nil
	}
	if errors.Is(err, git.ErrNotFound) {
		return "", nil
	}
	return commit, err
}

// whole filters the commits whose history is complete. An agent writes its HEAD and its stash
// itself, with any object name; a commit with missing objects can neither be counted nor kept,
// and must not prevent that for the others.
func (w *Workspace) whole(ctx context.Context, agent string, commits []string) ([]string, error) {
	var out []string
	for _, c := range commits {
		if c == "" {
			continue
		}
		err := w.of(agent).Complete(ctx, c+"^{commit}")
		if errors.Is(err, git.ErrNotFound) {
			w.cfg.Log.Warn("commit of an agent incomplete", "agent", agent, "op", "save", "path", c, "err", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// parseStatus reads git-status(1) --porcelain=v2 -z.
func parseStatus(out []byte) (Status, error) {
	var s Status
	fields := git.SplitNUL(out)
	for i := 0; i < len(fields); i++ {
		line := fields[i]
		var skip int // fields before the name
		switch {
		case strings.HasPrefix(line, "1 "):
			skip = 8
		case strings.HasPrefix(line, "2 "):
			skip = 9
			i++ // the old name
		case strings.HasPrefix(line, "u "):
			skip = 10
		case strings.HasPrefix(line, "? "):
			skip = 1
		case strings.HasPrefix(line, "! "), strings.HasPrefix(line, "# "):
			continue
		default:
			return s, fmt.Errorf("git status: cannot read %q", api.Shorten(line, 80))
		}
		parts := strings.SplitN(line, " ", skip+1)
		if len(parts) != skip+1 || parts[skip] == "" || skip > 1 && len(parts[1]) != 2 {
			return s, fmt.Errorf("git status: cannot read %q", api.Shorten(line, 80))
		}
		switch skip {
		case 1:
			s.Untracked++
		case 10:
			s.Conflicted++
		default:
			if parts[1][0] != '.' {
				s.Staged++
			}
			if parts[1][1] != '.' {
				s.Unstaged++
			}
		}
		if len(s.Paths) < maxNames {
			s.Paths = append(s.Paths, parts[skip])
		}
	}
	return s, nil
}
