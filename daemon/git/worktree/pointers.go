package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/git"
	"polis/daemon/git/nested"
	"polis/fusefs/fdtree"
)

// Pointer is a submodule in a tree: the commit that its directory names.
type Pointer struct{ Path, Commit string }

// LostPointer is a pointer to a commit that the project cannot get.
type LostPointer struct {
	Pointer
	// Cloned: the project has a repository of the submodule, which lacks the commit.
	Cloned bool
	// Module is the name of that repository below modules in the project's git directory.
	Module string
}

// LostPointers returns the pointers of a tree whose commits are not where the project can get them: in its own
// repository of the submodule, where a ref reaches them, or, if it has none, at a remote of another machine from which
// the agent has fetched them, or to which it has pushed them. What is not known is lost.
func (w *Workspace) LostPointers(ctx context.Context, agent, tree string, pointers []Pointer) (lost []LostPointer, err error) {
	if len(pointers) == 0 {
		return nil, nil
	}
	names, err := moduleNames(ctx, w.Bare(), tree)
	if err != nil {
		return nil, err
	}
	p, err := w.Project(ctx)
	if err != nil {
		return nil, err
	}
	for _, at := range pointers {
		module := names[at.Path]
		if module == "" {
			module = at.Path
		}
		l := LostPointer{Pointer: at, Module: module}
		has := false
		if p != nil {
			l.Cloned, has, err = p.submoduleHas(ctx, module, at.Commit)
			if err != nil {
				return nil, err
			}
		}
		if !l.Cloned {
			has, err = w.fetchedByAgent(ctx, agent, at, module)
			if err != nil {
				w.cfg.Log.Info("commit of a submodule not found", "agent", agent, "op", "merge", "path", at.Path, "err", err)
			}
		}
		if !has {
			lost = append(lost, l)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	return lost, nil
}

// moduleNames returns the names of the submodules of a tree by their paths, from its .gitmodules. Names that lead
// elsewhere are left out.
func moduleNames(ctx context.Context, repo git.Repo, tree string) (map[string]string, error) {
	names := map[string]string{}
	out, err := repo.Run(ctx, "ls-tree", "-z", "--full-tree", tree, "--", ".gitmodules")
	if err != nil || !strings.HasPrefix(string(out), "100") {
		return names, err
	}
	out, err = repo.Run(ctx, "config", "-z", "--blob", tree+":.gitmodules", "--get-regexp", `^submodule\..*\.path$`)
	if _, ok := git.ExitCode(err); err != nil && ok {
		return names, nil // it names none, or is no configuration
	}
	if err != nil {
		return nil, fmt.Errorf("read .gitmodules: %w", err)
	}
	for _, f := range git.SplitNUL(out) {
		key, at, ok := strings.Cut(f, "\n")
		name := strings.TrimSuffix(strings.TrimPrefix(key, "submodule."), ".path")
		if ok && filepath.IsLocal(name) && path.Clean(name) == name && !slices.Contains(strings.Split(name, "/"), "..") {
			names[path.Clean(at)] = name
		}
	}
	return names, nil
}

// submoduleHas reports whether the project has a repository of a submodule, and whether its refs reach a commit.
func (p *Project) submoduleHas(ctx context.Context, module, commit string) (cloned, has bool, err error) {
	err = p.module(module, func(*os.File) error { return nil })
	if errors.Is(err, fs.ErrNotExist) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("open the project's repository of the submodule %q: %w", module, err)
	}
	dir := filepath.Join(p.Dir, "modules", module)
	// GIT_WORK_TREE, because the directory that its configuration names can be missing.
	// It asks as git-submodule(1) does before it fetches: a commit that no ref reaches is fetched again.
	out, err := p.Do(ctx, git.Cmd{Args: []string{"rev-list", "-n", "1", commit, "--not", "--all"}, GitDir: dir, WorkTree: dir})
	if _, ok := git.ExitCode(err); err != nil && ok {
		return true, false, nil
	}
	return true, err == nil && len(out) == 0, err
}

// fetchedByAgent reports whether the agent's repository of a submodule shows that a remote of another machine has a commit.
func (w *Workspace) fetchedByAgent(ctx context.Context, agent string, at Pointer, module string) (has bool, err error) {
	tmp, err := w.scratch("save-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	admin, err := w.openAdmin(agent)
	if err != nil {
		return false, err
	}
	defer admin.Close()
	root, err := w.lower(agent, View{})
	if err != nil {
		return false, err
	}
	defer root.Close()
	n := &nestedReader{w: w, agent: agent, tmp: tmp, root: root, admin: admin}
	place, err := nested.PlaceOf(root, at.Path, path.Join(parts, agent))
	if err != nil || !place.Inside && place.Module == "" {
		place = nested.Place{Module: module}
	}
	dir, objects, err := n.open(ctx, at.Path, place)
	if err != nil {
		return false, err
	}
	defer dir.Close()
	refs, err := nested.ReadRefs(dir)
	if err != nil || len(refs.Fetched) == 0 {
		return false, err
	}
	refs.Local = []string{at.Commit}
	count, err := n.commits(ctx, refs, objects, "", nil)
	return err == nil && count == 0, err
}
