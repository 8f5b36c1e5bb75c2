package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/fusefs/gitdir/fsck"
)

// copyIndex makes the copy that the commands work on and removes conflicts from it, which no tree
// can contain. It returns the conflicting paths.
func (s *saver) copyIndex(ctx context.Context, head string) ([]string, error) {
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

// readIndex copies the agent's index. The agent can write it: only a regular file, only below its
// own git directory, is read.
func (s *saver) readIndex() error {
	root, err := s.w.openAdmin(s.agent)
	if err != nil {
		return err
	}
	defer root.Close()
	from, err := root.OpenFile("index", os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	if fi, err := from.Stat(); err != nil || !fi.Mode().IsRegular() {
		return errors.Join(err, fmt.Errorf("the index is not a regular file: %w", fs.ErrInvalid))
	}
	to, err := os.OpenFile(s.index, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, s.w.giveFile(to), to.Close())
}

// changed lists the paths at which the worktree differs from the index.
func (s *saver) changed(ctx context.Context, conflicted []string) ([]string, error) {
	// Compare contents: the agent's index is not trusted about a file's times, or that it is
	// "unchanged". Exit code 1 only means that something differs.
	_, err := s.git(ctx, nil, "update-index", "-q", "--really-refresh", "--ignore-submodules")
	if code, ok := git.ExitCode(err); err != nil && (!ok || code != 1) {
		return nil, fmt.Errorf("compare the worktree: %w", err)
	}
	diff, err := s.git(ctx, nil, "diff-files", "-z", "--name-only", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, fmt.Errorf("compare the worktree: %w", err)
	}
	list := []string{"ls-files", "-z", "--others"}
	if !s.opt.Ignored {
		list = append(list, "--exclude-standard")
	}
	other, err := s.git(ctx, nil, list...)
	if err != nil {
		return nil, fmt.Errorf("list untracked files: %w", err)
	}
	seen := map[string]bool{}
	var all []string
	for _, list := range [][]string{conflicted, git.SplitNUL(diff), git.SplitNUL(other)} {
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
