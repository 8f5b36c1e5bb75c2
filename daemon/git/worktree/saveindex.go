package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/gitdir/fsck"
)

// maxCopiedIndex bounds the index of an agent that is copied for git, in bytes: more than ten million files. An agent
// can give its index any size.
const maxCopiedIndex = 1 << 30

// copyIndex makes the copy that the commands work on and removes conflicts from it, which no tree
// can contain. It returns the conflicting paths.
func (s *saver) copyIndex(ctx context.Context, head string) ([]string, error) {
	if s.set != nil {
		return nil, s.copyChanges()
	}
	err := s.readIndex()
	if errors.Is(err, fs.ErrNotExist) {
		tree := head
		if tree == "" {
			_, err = s.git(ctx, nil, "read-tree", "--empty")
		} else {
			_, err = s.git(ctx, nil, "read-tree", tree)
		}
		return nil, err
	}
	if err != nil {
		return nil, fmt.Errorf("copy the index: %w", err)
	}
	if err := s.unmarkCopy(ctx); err != nil {
		return nil, fmt.Errorf("compare the worktree: %w", err)
	}
	out, err := s.git(ctx, nil, "ls-files", "--cached", "-z")
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	// git writes the names of an index into trees unchecked.
	for _, name := range git.SplitNUL(out) {
		if err := fsck.Path(name); err != nil {
			return nil, fmt.Errorf("the index has a name that no checkout can have: %w", err)
		}
	}
	if out, err = s.git(ctx, nil, "ls-files", "--unmerged", "-z"); err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	var names []string
	var in bytes.Buffer
	seen := map[string]bool{}
	for _, line := range git.SplitNUL(out) {
		if _, name, ok := strings.Cut(line, "\t"); ok && !seen[name] {
			seen[name] = true
			names = append(names, name)
			in.WriteString(name + "\x00")
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	_, err = s.git(ctx, &in, "update-index", "--force-remove", "-z", "--stdin")
	return names, err
}

// readIndex copies the agent's index, with its time: git compares the content of files that changed
// since then. The agent can write it: only a regular file, only below its own git directory, is
// read.
func (s *saver) readIndex() error {
	root, err := s.w.openAdmin(s.agent)
	if err != nil {
		return err
	}
	defer root.Close()
	from, fi, err := openIndex(root)
	if err != nil {
		return err
	}
	defer from.Close()
	if fi.Size() > maxCopiedIndex {
		return fmt.Errorf("the index has more than %d bytes; in the agent, rm \"$(git rev-parse --git-path index)\" && git reset makes it again", maxCopiedIndex)
	}
	to, err := os.OpenFile(s.index, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(copyFile(to, from), setTime(to, fi.ModTime()), s.w.giveFile(to), to.Close())
}

// copyChanges is copyIndex for a worktree of which git reads only what can differ: that part of the
// index is the copy.
func (s *saver) copyChanges() error {
	for _, name := range s.set.staged { // the others are those of a checkout
		if err := fsck.Path(name); err != nil {
			return fmt.Errorf("the index has a name that no checkout can have: %w", err)
		}
	}
	return s.w.writeIndex(s.index, s.set.part, untrusted)
}

// withoutConflicts has git read the whole worktree if the index has conflicts: they must be removed
// from all of it.
func (s *saver) withoutConflicts() {
	if s.set != nil && len(s.set.index.Conflicts()) > 0 {
		s.set = nil
	}
}

// within adds the paths that can differ to the arguments of a command that lists files.
func (s *saver) within(args []string) []string {
	if s.set == nil {
		return args
	}
	return s.set.only(args)
}

// writeTree stores the tree of the index.
func (s *saver) writeTree(ctx context.Context) (string, error) {
	index := s.index
	if s.set != nil {
		if len(s.set.staged) == 0 {
			return s.set.base, nil
		}
		index += ".whole"
		if err := s.w.writeIndex(index, s.set.bytes, s.set.written); err != nil {
			return "", err
		}
	}
	out, err := s.gitOf(ctx, index, nil, "write-tree")
	return strings.TrimSpace(string(out)), err
}

// blocking is the check of the files that git reads.
func (s *saver) blocking(ctx context.Context, root *os.File) error {
	if s.set == nil {
		return blocking(ctx, root)
	}
	return blockingAt(ctx, root, s.set.paths)
}

// openIndex opens the index in an agent's part of the git directory.
func openIndex(root *os.Root) (*os.File, fs.FileInfo, error) {
	f, err := root.OpenFile("index", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = fmt.Errorf("the index is not a regular file: %w", fs.ErrInvalid)
	}
	if err != nil {
		return nil, nil, errors.Join(err, f.Close())
	}
	return f, fi, nil
}

// changed lists the paths at which the worktree differs from the index.
func (s *saver) changed(ctx context.Context, conflicted []string) ([]string, error) {
	if s.set != nil && len(s.set.paths) == 0 && (!s.opt.Made || len(s.set.made) == 0) {
		return nil, nil
	}
	// The agent's index is not trusted that a file is "unchanged". Exit code 1 only means that
	// something differs.
	_, err := s.git(ctx, nil, "update-index", "-q", "--really-refresh", "--ignore-submodules")
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) {
		return nil, fmt.Errorf("compare the worktree: %w", err)
	}
	diff, err := s.git(ctx, nil, "diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, fmt.Errorf("compare the worktree: %w", err)
	}
	other, err := s.others(ctx)
	if err != nil {
		return nil, fmt.Errorf("list untracked files: %w", err)
	}
	seen := map[string]bool{}
	var all []string
	for _, list := range [][]string{conflicted, git.SplitNUL(diff), other} {
		for _, name := range list {
			if dir, ok := strings.CutSuffix(name, "/"); ok {
				s.out.Nested = append(s.out.Nested, dir)
			} else if !seen[name] {
				seen[name] = true
				all = append(all, name)
			}
		}
	}
	return all, nil
}
