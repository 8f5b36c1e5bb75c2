package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/nested"
)

// nestedReader compares the repositories of one worktree.
type nestedReader struct {
	w     *Workspace
	agent string
	view  View
	tmp   string // a scratch directory
	root  *os.File
	admin *os.Root
	used  map[string]bool // the repositories below modules that a directory uses
	seen  int
	owner *Project
	work  []NestedWork
}

func (n *nestedReader) add(work NestedWork) {
	if work.Commits > 0 || work.Changed > 0 || work.Why != "" {
		n.work = append(n.work, work)
	}
}

// place compares the directory of a submodule whose index entry names a commit.
func (n *nestedReader) place(ctx context.Context, name, pinned string, depth int) {
	work := NestedWork{Path: name}
	defer func() { n.add(work) }()
	if n.seen++; n.seen > maxNested || depth > maxNestedDepth {
		work.Why = "too many repositories are inside the worktree to compare them"
		return
	}
	at, err := nested.PlaceOf(n.root, name, path.Join(parts, n.agent))
	switch {
	case err != nil:
		work.Why = "it cannot be read: " + err.Error()
	case at.Files:
		work.Why = "the directory of a submodule that has no repository has files"
	}
	if work.Why != "" || at.Empty() {
		return
	}
	dir, objects, err := n.open(ctx, name, at)
	if err != nil {
		work.Why = "its repository cannot be read: " + err.Error()
		return
	}
	defer dir.Close()
	n.used[at.Module] = true
	refs, err := nested.ReadRefs(dir)
	if err == nil {
		work.Commits, err = n.commits(ctx, refs, objects, at.Module, n.pinned(ctx, name))
	}
	var links map[string]string
	if err == nil {
		work.Changed, links, err = n.changed(ctx, name, dir, refs.Head, objects)
	}
	if err != nil {
		work.Why = "it cannot be compared: " + err.Error()
		return
	}
	if work.Changed == 0 && refs.Head != pinned {
		work.Changed = 1 // another commit is checked out than the one above has
	}
	for _, inner := range slices.Sorted(maps.Keys(links)) {
		n.place(ctx, path.Join(name, inner), links[inner], depth+1)
	}
}

// module compares a repository that no directory uses: of it, only commits are work.
func (n *nestedReader) module(ctx context.Context, module string) {
	work := NestedWork{Path: path.Join("modules", module)}
	dir, objects, err := n.open(ctx, "", nested.Place{Module: module})
	if err == nil {
		defer dir.Close()
		var refs nested.Refs
		if refs, err = nested.ReadRefs(dir); err == nil {
			work.Commits, err = n.commits(ctx, refs, objects, module, nil)
		}
	}
	if err != nil {
		work.Why = "it cannot be read: " + err.Error()
	}
	n.add(work)
}

// open opens the git directory of a place. objects are the paths of its objects, for a git that sees the worktree: its
// own, and those that it borrows from the project, which the agent has at another path.
func (n *nestedReader) open(ctx context.Context, name string, at nested.Place) (dir *os.File, objects []string, err error) {
	if at.Inside {
		inside := path.Join(name, ".git")
		dir, err = nested.OpenDir(n.root, inside)
		return dir, []string{filepath.Join(n.w.tree(n.agent), inside, "objects")}, err
	}
	admin, err := n.admin.Open(".")
	if err != nil {
		return nil, nil, err
	}
	defer admin.Close()
	inside := path.Join("modules", at.Module)
	dir, err = nested.OpenDir(admin, inside)
	objects = []string{filepath.Join(n.w.admin(n.agent), inside, "objects")}
	if p := n.project(ctx); p != nil && err == nil {
		objects = append(objects, filepath.Join(p.Dir, inside, "objects"))
	}
	return dir, objects, err
}

// repo makes a repository of polis' own that borrows the objects of another one: git reads nothing else of that one,
// such as its configuration. head is the commit of its HEAD.
func (n *nestedReader) repo(head string, objects ...string) (git.Repo, error) {
	dir, err := os.MkdirTemp(n.tmp, "repo-")
	if err != nil {
		return git.Repo{}, err
	}
	format := "sha1"
	if len(head) == 64 {
		format = "sha256"
	}
	if head == "" {
		head = "ref: refs/heads/none"
	}
	root, err := openScratch(dir)
	if err != nil {
		return git.Repo{}, err
	}
	defer root.Close()
	for _, name := range []string{"objects", "refs"} {
		if err := errors.Join(root.Mkdir(name, 0o700), n.w.giveDir(root, name)); err != nil {
			return git.Repo{}, err
		}
	}
	err = errors.Join(n.w.createFile(root, "HEAD", head+"\n"), n.w.createFile(root, "config", sharedConfig(format)), n.w.giveDir(root, "."))
	return git.Repo{Runner: n.w.Bare().Runner, Dir: dir, Alternates: objects}, err
}

// commits counts the commits of a repository that are nowhere else. pinned are commits that the target has.
func (n *nestedReader) commits(ctx context.Context, refs nested.Refs, objects []string, module string, pinned []string) (int, error) {
	known := slices.Concat(n.ofProject(ctx, module), refs.Fetched, pinned)
	var tips []string
	for _, id := range refs.Local {
		if !slices.Contains(known, id) {
			tips = append(tips, id)
		}
	}
	if len(tips) > 0 && len(objects) > 1 {
		// What the project has, whatever its refs name now, is not the agent's.
		r, err := n.repo(tips[0], objects[1])
		if err != nil {
			return 0, err
		}
		has, err := r.Present(ctx, tips)
		if err != nil {
			return 0, err
		}
		known = append(known, has...)
		tips = slices.DeleteFunc(tips, func(id string) bool { return slices.Contains(has, id) })
	}
	if len(tips) == 0 {
		return 0, nil
	}
	r, err := n.repo(tips[0], objects...)
	if err != nil {
		return 0, err
	}
	c := git.Cmd{Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}, Stdin: strings.NewReader(strings.Join(known, "\n") + "\n"), Under: n.w.under(n.agent, n.view), Timeout: statusTime}
	in := bytes.NewBufferString(strings.Join(tips, "\n") + "\n")
	if len(known) > 0 {
		err = r.Lines(ctx, c, func(line string) {
			if id, ok := strings.CutSuffix(line, " commit"); ok {
				in.WriteString("^" + id + "\n")
			}
		})
		if err != nil {
			return 0, err
		}
	}
	out, err := r.Do(ctx, git.Cmd{Args: []string{"rev-list", "--count", "--stdin"}, Stdin: in, Under: n.w.under(n.agent, n.view), Timeout: statusTime})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(out)))
}

// changed counts the files that differ from the commit that is checked out, and returns the submodules in the index.
func (n *nestedReader) changed(ctx context.Context, name string, dir *os.File, head string, objects []string) (int, map[string]string, error) {
	r, err := n.repo(head, objects...)
	if err != nil {
		return 0, nil, err
	}
	c := git.Cmd{Args: []string{"status", "--porcelain=v1", "-z", "--untracked-files=normal", "--no-renames", "--ignore-submodules=all"},
		WorkTree: filepath.Join(n.w.tree(n.agent), name), Index: filepath.Join(r.Dir, "index"), Dir: r.Dir, Under: n.w.under(n.agent, n.view), Timeout: statusTime, Config: []string{"core.bare=false"}}
	var links map[string]string
	f, err := nested.Open(dir, "index", unix.O_RDONLY)
	switch {
	case errors.Is(err, fs.ErrNotExist): // everything counts as removed
	case err != nil:
		return 0, nil, err
	default:
		defer f.Close()
		fi, err := f.Stat()
		if err != nil {
			return 0, nil, err
		}
		if !fi.Mode().IsRegular() || fi.Size() > maxIndex {
			return 0, nil, fmt.Errorf("its index is no file of at most %d bytes", maxIndex)
		}
		text, err := io.ReadAll(io.LimitReader(f, maxIndex))
		if err != nil {
			return 0, nil, err
		}
		x, err := parseIndex(text)
		if err != nil {
			return 0, nil, err
		}
		links = x.Gitlinks()
		// A mark would hide a change.
		for _, i := range x.Marked() {
			x.Unmark(i)
			text = nil
		}
		if text == nil {
			text = x.Whole()
		}
		if err := n.w.scratchIndex(r.Dir, text, fi.ModTime()); err != nil {
			return 0, nil, err
		}
	}
	out, err := r.Do(ctx, c)
	return len(git.SplitNUL(out)), links, err
}

// pinned returns the commit that the target has at the path of a submodule.
func (n *nestedReader) pinned(ctx context.Context, name string) []string {
	target, err := n.w.Target(ctx)
	if err != nil {
		return nil //nolint:nilerr // nothing is known to be there
	}
	out, err := n.w.Bare().Run(ctx, "ls-tree", "-z", "--full-tree", git.Branch(target), "--", name)
	if err != nil {
		return nil //nolint:nilerr // nothing is known to be there
	}
	mode, rest, _ := strings.Cut(string(out), " ")
	kind, rest, _ := strings.Cut(rest, " ")
	id, _, _ := strings.Cut(rest, "\t")
	if mode != "160000" || kind != "commit" || !git.IsOID(id) {
		return nil
	}
	return []string{id}
}

// ofProject returns the commits that the refs of the project's own repository of a submodule name. A repository that
// is missing, or cannot be read, has none.
func (n *nestedReader) ofProject(ctx context.Context, module string) []string {
	p := n.project(ctx)
	if module == "" || p == nil {
		return nil
	}
	var ids []string
	err := p.module(module, func(dir *os.File) error {
		refs, err := nested.ReadRefs(dir)
		ids = refs.All()
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.w.cfg.Log.Warn("repository of a submodule of the project not read", "agent", n.agent, "op", "status", "path", module, "err", err)
	}
	return ids
}

// project returns the project; nil if it is not there: then the commits count as work.
func (n *nestedReader) project(ctx context.Context) *Project {
	if n.owner == nil {
		p, err := n.w.Project(ctx)
		if err != nil {
			return nil
		}
		n.owner = p
	}
	return n.owner
}
