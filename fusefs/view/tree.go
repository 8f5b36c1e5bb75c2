package view

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"polis/fusefs"
	"polis/fusefs/policy"
)

// maxTree is the most names that are checked before a directory may be moved.
const maxTree = 100_000

// trees decides about everything below the directories that an operation moves: every name must be
// writable at its old and at its new path. The rules alone prove most cases. Else the names below
// the view are listed, without following links. A name that appears between the listing and the
// move was gated only where it was made: the file system calls MayCarry for it.
func (g *Guard) trees(ctx context.Context, op fusefs.Op, targets []fusefs.Target, v *verdicts) error {
	proven := !g.Watched(targets)
	if proven || len(targets) != 2 {
		if !proven {
			return errors.New("a directory moves with one source and one destination")
		}
		return nil
	}
	if g.root < 0 {
		return errors.New("the rules do not allow writing everything in the directory")
	}
	left := maxTree
	if err := g.walk(ctx, op, targets[0], targets[1].Path, v, &left); err != nil {
		return err
	}
	if op == fusefs.OpExchange {
		return g.walk(ctx, op, targets[1], targets[0].Path, v, &left)
	}
	return nil
}

// walk decides about every name below from, and about the name that it will have below to.
func (g *Guard) walk(ctx context.Context, op fusefs.Op, from fusefs.Target, to string, v *verdicts, left *int) error {
	if !from.Dir {
		return nil
	}
	for stack := []string{""}; len(stack) > 0 && v.bad == nil; {
		rel := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if err := ctx.Err(); err != nil {
			return err
		}
		entries, err := g.list(from.Path+rel, left)
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := rel + "/" + e.Name()
			v.add(op, fusefs.Target{Path: from.Path + name, Dir: e.IsDir()})
			v.add(op, fusefs.Target{Path: to + name, Dir: e.IsDir()})
			if !e.IsDir() && v.bad == nil && g.unknownName(v.set, from.Path+name) {
				v.bad = &refusal{path: from.Path + name, rule: notCarried}
			}
			if e.IsDir() {
				stack = append(stack, name)
			}
		}
	}
	return nil
}

func (g *Guard) list(path string, left *int) ([]os.DirEntry, error) {
	if g.cfg.List != nil {
		all, err := g.cfg.List(path)
		switch {
		case g.cfg.Below && errors.Is(err, unix.ENOENT):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
		if *left -= len(all); *left < 0 {
			return nil, fmt.Errorf("more than %d names in the directory", maxTree)
		}
		return all, nil
	}
	fd, err := unix.Openat2(g.root, path, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if g.cfg.Below && errors.Is(err, unix.ENOENT) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	d := os.NewFile(uintptr(fd), path)
	defer d.Close()
	var all []os.DirEntry
	for {
		some, err := d.ReadDir(1024)
		all = append(all, some...)
		if *left -= len(some); *left < 0 {
			return nil, fmt.Errorf("more than %d names in the directory", maxTree)
		}
		switch {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", path, err)
		}
	}
}

// Watched implements fusefs.Mover: it reports whether the rules alone do not prove that everything
// in these directories may be written.
func (g *Guard) Watched(targets []fusefs.Target) bool {
	set := g.set.Load()
	for _, t := range targets {
		if t.Tree && !g.inStore(t.Path) && !set.AllWritable(t.Path) {
			return true
		}
	}
	return false
}

// MayCarry implements fusefs.Mover.
func (g *Guard) MayCarry(path string, dir bool) bool {
	set := g.set.Load()
	return g.inStore(path) || !g.isGitFile(path) && set.DecideThrough(path, dir).Write == policy.Allow && (dir || !g.unknownName(set, path))
}
