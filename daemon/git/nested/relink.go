package nested

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// Relink changes what repositories below the directory modules, and the directories of a worktree that they belong to,
// have of each other: the name of the worktree in their paths, from one to another. trees are the directories of the
// worktree, with all that is below them.
func Relink(ctx context.Context, modules, tree *os.Root, trees []string, from, to string) error {
	if from == to {
		return nil
	}
	dir, err := modules.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	list, err := Modules(ctx, dir)
	if err != nil {
		return err
	}
	for _, m := range list {
		if err := rewrite(modules, path.Join(m, "config"), "worktree = ", from, to); err != nil {
			return fmt.Errorf("relink the repository %q: %w", m, err)
		}
	}
	for _, at := range trees {
		if err := relinkBelow(ctx, tree, at, from, to, 0); err != nil {
			return fmt.Errorf("relink the directory %q: %w", at, err)
		}
	}
	return nil
}

// maxTree bounds the depth of a directory in which Relink searches: as deep as a copied tree can be.
const maxTree = 128

func relinkBelow(ctx context.Context, tree *os.Root, at, from, to string, depth int) error {
	if depth > maxTree {
		return fmt.Errorf("it is too deep: %w", ErrOdd)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := tree.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1024)
		for _, e := range entries {
			name := path.Join(at, e.Name())
			switch {
			case e.Name() == ".git" && e.Type().IsRegular():
				err = errors.Join(err, rewrite(tree, name, "gitdir: ", from, to))
			case e.IsDir() && e.Name() != ".git":
				if err := relinkBelow(ctx, tree, name, from, to, depth+1); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil || len(entries) == 0 {
			return err
		}
	}
}

// rewrite exchanges the name of a worktree in the lines of a file that begin with key. A file that is missing, or has
// no such line, is left alone.
func rewrite(root *os.Root, name, key, from, to string) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close()
	text, err := read(dir, name, maxText)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EISDIR) || errors.Is(err, ErrOdd) || errors.Is(err, unix.ENOTDIR) {
		return nil
	}
	if err != nil {
		return err
	}
	var out strings.Builder
	changed := false
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(strings.TrimLeft(line, " \t"), key) {
			if before, after, ok := strings.Cut(line, "/worktrees/"+from+"/"); ok {
				line, changed = before+"/worktrees/"+to+"/"+after, true
			}
		}
		out.WriteString(line)
	}
	if !changed {
		return nil
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_TRUNC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(out.String())
	return errors.Join(err, f.Close())
}
