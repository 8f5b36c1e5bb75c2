package nested

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Place is what a directory of a worktree has of a repository of its own.
type Place struct {
	// Module is the path of its repository below the directory "modules" of the worktree's git directory; "" if it
	// has none there.
	Module string
	// Inside: the repository is the directory's own .git.
	Inside bool
	// Files: the directory has no repository, but files.
	Files bool
}

// Empty reports whether there is nothing in the directory.
func (p Place) Empty() bool { return p == Place{} }

// PlaceOf reads a directory of a worktree. git is the path of the worktree's git directory, as it is in a pointer:
// its last two components. A repository that is elsewhere is ErrOdd. A directory that is missing is empty.
func PlaceOf(tree *os.File, name, git string) (Place, error) {
	dir, err := OpenDir(tree, name)
	if errors.Is(err, fs.ErrNotExist) {
		return Place{}, nil
	}
	if err != nil {
		return Place{}, err
	}
	defer dir.Close()
	t, err := kind(dir, ".git")
	if err != nil {
		return Place{}, err
	}
	switch {
	case t == fs.ModeIrregular:
		_, err := dir.ReadDir(1)
		if errors.Is(err, io.EOF) {
			return Place{}, nil
		}
		return Place{Files: true}, err
	case t.IsDir():
		return Place{Inside: true}, nil
	}
	text, err := read(dir, ".git", maxText)
	if err != nil {
		return Place{}, err
	}
	module, ok := moduleOf(string(text), git)
	if !ok {
		return Place{}, fmt.Errorf("its repository is not in this worktree: %w", ErrOdd)
	}
	return Place{Module: module}, nil
}

// moduleOf returns the path below "modules" that a file .git points to.
func moduleOf(text, git string) (string, bool) {
	to, ok := strings.CutPrefix(strings.TrimRight(text, "\r\n"), "gitdir: ")
	if !ok {
		return "", false
	}
	_, module, ok := strings.Cut(to, "/"+git+"/modules/")
	if !ok || module == "" || path.Clean(module) != module || !filepath.IsLocal(module) {
		return "", false
	}
	return module, true
}

// Modules lists the repositories below a directory "modules", with those of their own submodules.
func Modules(ctx context.Context, modules *os.File) ([]string, error) {
	var found []string
	err := modulesBelow(ctx, modules, "", 0, &found)
	if err != nil {
		return found, fmt.Errorf("list the repositories of submodules: %w", err)
	}
	return found, nil
}

func modulesBelow(ctx context.Context, top *os.File, at string, depth int, found *[]string) error {
	if depth > maxDepth || len(*found) > maxNames {
		return fmt.Errorf("there are too many, or they are too deep: %w", ErrOdd)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	dir, err := OpenDir(top, path.Join(".", at))
	if err != nil {
		return err
	}
	defer dir.Close()
	list, err := names(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if !e.IsDir() {
			continue
		}
		name := path.Join(at, e.Name())
		is, err := isRepository(top, name)
		if err != nil {
			return err
		}
		if !is { // a part of a name that has slashes
			if err := modulesBelow(ctx, top, name, depth+1, found); err != nil {
				return err
			}
			continue
		}
		*found = append(*found, name)
		if t, err := kind(top, path.Join(name, "modules")); err != nil {
			return err
		} else if t.IsDir() {
			if err := modulesBelow(ctx, top, path.Join(name, "modules"), depth+1, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// isRepository reports whether a directory looks like a git directory.
func isRepository(top *os.File, name string) (bool, error) {
	for _, part := range []string{"HEAD", "objects"} {
		if t, err := kind(top, path.Join(name, part)); err != nil || t == fs.ModeIrregular {
			return false, err
		}
	}
	return true, nil
}
