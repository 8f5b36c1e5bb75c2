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

	"golang.org/x/sys/unix"

	"polis/daemon/git/nested"
	"polis/daemon/host/private"
	"polis/daemon/store"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// A ref cannot have what is in a repository inside the worktree. It is copied to a directory of the trash whose name
// is that of the ref: the directories of the worktree, and the repositories of submodules. Nothing in it is run or
// followed: it is copied as it is.
const (
	nestedSuffix  = ".nested" // of the directory in the trash
	nestedTrees   = "trees"
	nestedModules = "modules"
	nestedList    = "list.json" // written last
)

// nestedDirs lists the directories that a copy has: names can have any bytes.
type nestedDirs struct {
	Paths   [][]byte `json:"paths"`
	Modules bool     `json:"modules"`
	Data    []string `json:"data"` // directories of the agent's part of the git directory
}

// nestedDir is the directory of the trash that belongs to a trash ref.
func (w *Workspace) nestedDir(ref string) string {
	agent, stamp, _ := strings.Cut(strings.TrimPrefix(ref, trashPrefix), "/")
	return filepath.Join(w.trashDir(), agent+"."+stamp+nestedSuffix)
}

// nested finds the repositories inside the worktree, and reports whether they must be saved.
func (s *saver) nested(ctx context.Context) (bool, error) {
	p, err := s.w.places(ctx, s.agent)
	if err != nil {
		return false, fmt.Errorf("find the repositories in the worktree: %w", err)
	}
	root, err := s.w.lower(s.agent, s.opt.View)
	if err != nil {
		return false, err
	}
	defer root.Close()
	for name := range p.links {
		at, err := nested.PlaceOf(root, name, path.Join(parts, s.agent))
		if (err != nil || !at.Empty()) && !slices.Contains(s.out.Nested, name) {
			s.out.Nested = append(s.out.Nested, name)
		}
	}
	slices.Sort(s.out.Nested)
	s.modules = len(p.modules) > 0
	for _, dir := range dataDirs {
		f, err := s.w.ownData(s.agent, dir)
		if err == nil {
			err = f.Close()
			s.data = true
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
	}
	if s.opt.Nested {
		return len(s.out.Nested) > 0 || s.modules || s.data, nil
	}
	for _, name := range s.out.Nested {
		if _, link := p.links[name]; !link {
			return true, nil // git knows nothing of it
		}
	}
	work, err := s.w.nestedWork(ctx, s.agent, s.opt.View)
	return len(work) > 0, err
}

// keepNested copies the repositories inside the worktree to the trash.
func (s *saver) keepNested(ctx context.Context, root *os.File) (err error) {
	if len(s.out.Nested) == 0 && !s.modules && !s.data {
		return nil
	}
	dir := s.w.nestedDir(s.out.Ref)
	if err := private.Within(s.w.trashDir()); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("keep the repositories in the worktree: %w", err), fdtree.Cleanup(dir))
		}
	}()
	failpoint.Hit("save:nested")
	list := nestedDirs{Modules: s.modules}
	trees := filepath.Join(dir, nestedTrees)
	if err := os.Mkdir(trees, 0o700); err != nil {
		return err
	}
	for _, name := range s.out.Nested {
		from, err := nested.OpenDir(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed meanwhile
		}
		if err != nil {
			return err
		}
		err = copyDir(ctx, from, filepath.Join(trees, fmt.Sprint(len(list.Paths))))
		if err = errors.Join(err, from.Close()); err != nil {
			return err
		}
		list.Paths = append(list.Paths, []byte(name))
	}
	if s.modules {
		if err := s.w.copyModules(ctx, s.agent, filepath.Join(dir, nestedModules)); err != nil {
			return err
		}
	}
	if list.Data, err = s.w.copyData(ctx, s.agent, dir); err != nil {
		return err
	}
	return store.WriteSummed(filepath.Join(dir, nestedList), list)
}

// copyModules copies the repositories of an agent's submodules to a directory, which it makes.
func (w *Workspace) copyModules(ctx context.Context, agent, to string) error {
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	from, err := admin.OpenFile(nestedModules, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer from.Close()
	return copyDir(ctx, from, to)
}

// copyDir copies a tree to a directory in one of root's, which it makes.
func copyDir(ctx context.Context, from *os.File, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	dst, err := openDir(to, to)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyTree(ctx, from, dst)
}

func copyTree(ctx context.Context, from, to *os.File) error {
	c := fdtree.Copier{Whole: true, Attr: func(name string) bool {
		return strings.HasPrefix(name, "user.") || strings.HasPrefix(name, "system.posix_acl_")
	}}
	return c.Copy(ctx, int(from.Fd()), int(to.Fd()))
}

// refillNested gives a restored worktree the repositories that belong to a trash ref.
func (w *Workspace) refillNested(ctx context.Context, agent string, t TrashRef) error {
	dir, err := os.OpenRoot(w.nestedDir(t.Ref))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	var list nestedDirs
	if err := store.ReadSummed(filepath.Join(w.nestedDir(t.Ref), nestedList), &list); err != nil {
		return fmt.Errorf("read the list of repositories: %w", err)
	}
	merged, err := w.attach(ctx, agent)
	if err != nil {
		return err
	}
	if merged == "" {
		merged = w.tree(agent)
	}
	root, err := w.openRoot(merged)
	if err != nil {
		return err
	}
	defer root.Close()
	for i, p := range list.Paths {
		name := string(p)
		if err := w.parents(root, filepath.Clean(name)); err != nil {
			return err
		}
		if err := w.putTree(ctx, dir, path.Join(nestedTrees, fmt.Sprint(i)), root, name); err != nil {
			return fmt.Errorf("restore %q: %w", name, err)
		}
	}
	if err := w.takeData(ctx, agent, dir); err != nil {
		return fmt.Errorf("restore the data of Git LFS and git-annex: %w", err)
	}
	if !list.Modules {
		return nil
	}
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	if err := admin.Mkdir(nestedModules, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := w.putTree(ctx, dir, nestedModules, admin, nestedModules); err != nil {
		return fmt.Errorf("restore the repositories of submodules: %w", err)
	}
	modules, err := admin.OpenRoot(nestedModules)
	if err != nil {
		return err
	}
	defer modules.Close()
	trees := make([]string, 0, len(list.Paths))
	for _, p := range list.Paths {
		trees = append(trees, string(p))
	}
	return nested.Relink(ctx, modules, root, trees, t.Agent, agent)
}

// putTree copies a directory of the trash to an empty one.
func (w *Workspace) putTree(ctx context.Context, from *os.Root, name string, to *os.Root, at string) error {
	src, err := from.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := to.OpenFile(at, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer dst.Close()
	return copyTree(ctx, src, dst)
}

// dropNested deletes what belongs to a trash ref besides its objects.
func (w *Workspace) dropNested(ctx context.Context, ref string) error {
	return fdtree.RemoveAll(ctx, w.nestedDir(ref))
}
