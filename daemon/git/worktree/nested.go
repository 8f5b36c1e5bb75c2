package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"

	"polis/daemon/api"
	"polis/daemon/git/gitindex"
	"polis/daemon/git/nested"
	"polis/fusefs/fdtree"
)

const (
	// maxNested bounds the repositories of one worktree that are compared, and maxNestedDepth how deep they are in
	// one another. More than that counts as work.
	maxNested      = 1000
	maxNestedDepth = 16
)

// NestedWork is work in a repository inside a worktree, such as that of a submodule, that is nowhere else.
type NestedWork struct {
	// Path is its directory in the worktree; that of its repository, modules/NAME, if no directory uses it.
	Path string
	// Commits that neither the target, nor the project's own submodule, nor a remote of it has; Changed files.
	Commits, Changed int
	// Why is why it counts as work although that is not known.
	Why string
}

func (n NestedWork) String() string { return strconv.Quote(n.Path) + ": " + n.text() }

// text is String without the path.
func (n NestedWork) text() string {
	switch {
	case n.Why != "":
		return n.Why
	case n.Commits == 0:
		return api.Count(n.Changed, "changed file")
	case n.Changed == 0:
		return api.Count(n.Commits, "commit")
	}
	return api.Count(n.Commits, "commit") + " and " + api.Count(n.Changed, "changed file")
}

// addNested counts the work in repositories inside the worktree.
func (s *Status) addNested(work []NestedWork) {
	s.Nested = work
	s.Unstaged += len(work)
	for _, n := range work {
		if len(s.Paths) < maxNames && !slices.Contains(s.Paths, n.Path) {
			s.Paths = append(s.Paths, n.Path)
		}
	}
}

// places are the directories of a worktree that have, or can have, a repository of their own, and the repositories
// of its submodules.
type places struct {
	links   map[string]string // the submodules in the index of the worktree, with their commits
	modules []string          // below the directory "modules" of its git directory
}

func (p places) none() bool { return len(p.links) == 0 && len(p.modules) == 0 }

// places finds them. It runs no git, and costs nearly nothing where there are none.
func (w *Workspace) places(ctx context.Context, agent string) (p places, err error) {
	admin, err := w.openAdmin(agent)
	if err != nil {
		return p, err
	}
	defer admin.Close()
	text, _, err := indexBytes(admin)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return p, err
	}
	if gitindex.HasGitlinks(text) {
		x, err := parseIndex(text)
		if err != nil {
			return p, err
		}
		p.links = x.Gitlinks()
	}
	dir, err := admin.Open(".")
	if err != nil {
		return p, err
	}
	defer dir.Close()
	modules, err := nested.OpenDir(dir, "modules")
	if errors.Is(err, fs.ErrNotExist) {
		return p, nil
	}
	if err != nil {
		return p, err
	}
	defer modules.Close()
	p.modules, err = nested.Modules(ctx, modules)
	return p, err
}

// indexBytes reads the index below the root of a git directory.
func indexBytes(root *os.Root) ([]byte, fs.FileInfo, error) {
	f, fi, err := openIndex(root)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	if fi.Size() > maxIndex {
		return nil, nil, fmt.Errorf("the index has more than %d bytes", maxIndex)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIndex))
	return text, fi, err
}

// nestedWork lists the work in repositories inside an agent's worktree. What cannot be read is work. It changes
// nothing, and the git that it runs reads no configuration of these repositories.
func (w *Workspace) nestedWork(ctx context.Context, agent string, v View) (work []NestedWork, err error) {
	data := w.dataWork(ctx, agent)
	p, err := w.places(ctx, agent)
	if err != nil {
		return append(data, NestedWork{Path: "modules", Why: "it cannot be read: " + err.Error()}), context.Cause(ctx)
	}
	if p.none() {
		return data, context.Cause(ctx)
	}
	tmp, err := w.scratch("save-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	root, err := w.lower(agent, v)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	admin, err := w.openAdmin(agent)
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	n := &nestedReader{w: w, agent: agent, view: v, tmp: tmp, root: root, admin: admin, used: map[string]bool{}, work: data}
	for _, name := range slices.Sorted(maps.Keys(p.links)) {
		n.place(ctx, name, p.links[name], 0)
	}
	for _, m := range p.modules {
		if !n.used[m] {
			n.module(ctx, m)
		}
	}
	return n.work, context.Cause(ctx)
}
