package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/git"
	"polis/daemon/git/nested"
	"polis/fusefs/fdtree"
	"polis/internal/failpoint"
)

// FillSubmodules fills the empty directories of submodules in the worktree of an agent that is stopped, and of no other: with the files of
// the commit that the one above names, from the project's own repositories of these submodules, nested ones too. An
// agent's repository has none of their objects, but borrows them, so the agent must see them where ModuleObjects says. A
// directory that cannot be filled stays empty; why is logged.
func (w *Workspace) FillSubmodules(ctx context.Context, agent string, p *Project) (err error) {
	at, err := w.places(ctx, agent)
	if err != nil || len(at.links) == 0 || p == nil {
		return err
	}
	if runs, err := mounted(w.tree(agent)); runs || err != nil {
		return err
	}
	if c := w.Cone(ctx, agent); c != nil {
		maps.DeleteFunc(at.links, func(name, _ string) bool { return !c.Contains(name) })
	}
	tmp, err := w.scratch("save-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, fdtree.Cleanup(tmp)) }()
	root, err := w.lower(agent, View{})
	if err != nil {
		return err
	}
	defer root.Close()
	admin, err := w.openAdmin(agent)
	if err != nil {
		return err
	}
	defer admin.Close()
	f := &filler{nestedReader: &nestedReader{w: w, agent: agent, tmp: tmp, root: root, admin: admin, owner: p}}
	head, err := w.head(ctx, agent)
	if err != nil || head == "" {
		return err
	}
	names, err := moduleNames(ctx, w.of(agent), head)
	if err != nil {
		return err
	}
	f.each(ctx, "", "", names, at.links, 0, f.fill)
	return context.Cause(ctx)
}

// filler fills the submodules of one worktree.
type filler struct{ *nestedReader }

// fill fills one directory, if it is empty, or was filled only in part. The index comes last.
func (f *filler) fill(ctx context.Context, name, module, commit string, depth int) error {
	place, err := nested.PlaceOf(f.root, name, path.Join(parts, f.agent))
	if err != nil {
		return err
	}
	inside := path.Join(nestedModules, module)
	there, err := present(f.admin, inside)
	if err != nil || !place.Empty() && place.Module != module || place.Empty() && there {
		return err // the agent's
	}
	if there {
		if done, err := present(f.admin, path.Join(inside, "index")); done || err != nil {
			return err
		}
	}
	var refs map[string]string
	err = f.owner.module(module, func(dir *os.File) (err error) {
		refs, err = nested.Borrowable(dir)
		return err
	})
	if err != nil {
		return fmt.Errorf("read the project's repository of the submodule: %w", err)
	}
	objects := filepath.Join(f.owner.Dir, nestedModules, module, "objects")
	r, err := f.repo(commit, objects)
	if err != nil {
		return err
	}
	if _, err := r.Run(ctx, "cat-file", "-e", commit+"^{tree}"); err != nil {
		return fmt.Errorf("the project's repository lacks the commit %.12s: %w", commit, err)
	}
	if !there {
		if err := f.link(ctx, name, module, commit, refs); err != nil {
			return err
		}
	}
	failpoint.Hit("submodule:placed")
	index := filepath.Join(r.Dir, "index")
	at := filepath.Join(f.w.tree(f.agent), name)
	_, err = r.Do(ctx, git.Cmd{Args: []string{"read-tree", "--reset", "-u", commit}, WorkTree: at, Index: index, Dir: r.Dir, Write: []string{f.w.tree(f.agent)},
		Under: f.w.under(f.agent, View{}), Timeout: checkoutTimeout, Config: []string{"core.bare=false"}})
	if err != nil {
		return err
	}
	dir, err := f.admin.OpenRoot(inside)
	if err != nil {
		return err
	}
	defer dir.Close()
	src, err := openScratch(r.Dir)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := f.index(dir, src); err != nil {
		return err
	}
	names, links, err := submodulesOf(ctx, r, src, commit)
	if err != nil {
		return err
	}
	f.each(ctx, name, module, names, links, depth+1, f.fill)
	return nil
}

// index gives a repository the index of its checkout.
func (f *filler) index(dir, from *os.Root) error {
	src, err := from.OpenFile("index", os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := f.w.copyIndex(dir, "index.polis", src); err != nil {
		return err
	}
	fi, err := src.Stat()
	if err != nil {
		return err
	}
	made, err := dir.OpenFile("index.polis", os.O_WRONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	if err := errors.Join(setTime(made, fi.ModTime()), made.Close()); err != nil {
		return err
	}
	return dir.Rename("index.polis", "index")
}

// link makes the repository of a submodule, without an index, and the file that leads to it.
func (f *filler) link(ctx context.Context, name, module, commit string, refs map[string]string) error {
	inside := path.Join(nestedModules, module)
	for _, d := range append(above(inside), inside, inside+"/objects", inside+"/objects/info", inside+"/refs") {
		err := f.admin.Mkdir(d, 0o700)
		if err == nil {
			err = f.w.giveDir(f.admin, d)
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	format := "\trepositoryformatversion = 0\n"
	if len(commit) == 64 {
		format = "\trepositoryformatversion = 1\n[extensions]\n\tobjectFormat = sha256\n[core]\n"
	}
	var packed strings.Builder
	packed.WriteString("# pack-refs with: sorted \n")
	for _, ref := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(ref, "refs/remotes/") || strings.HasPrefix(ref, "refs/tags/") {
			packed.WriteString(refs[ref] + " " + ref + "\n")
		}
	}
	for _, file := range []struct{ name, text string }{
		{"config", "[core]\n" + format + "\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n\tworktree = " + git.QuoteConfig(filepath.Join(f.owner.Path, name)) + "\n[submodule]\n\tactive = .\n"},
		{"objects/info/alternates", ModuleObjects(f.w.polis(), module) + "\n"},
		{"packed-refs", packed.String()},
		{"HEAD", commit + "\n"},
	} {
		if err := f.w.createFile(f.admin, path.Join(inside, file.name), file.text); err != nil {
			return err
		}
	}
	merged, err := f.w.attach(ctx, f.agent)
	if err != nil {
		return err
	}
	if merged == "" {
		merged = f.w.tree(f.agent)
	}
	root, err := f.w.openRoot(merged)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := f.w.parents(root, name); err != nil {
		return err
	}
	return f.w.createFile(root, path.Join(name, ".git"), "gitdir: "+filepath.Join(f.w.admin(f.agent), inside)+"\n")
}

// above lists the directories above a path, the outermost first.
func above(name string) (dirs []string) {
	for d := path.Dir(name); d != "."; d = path.Dir(d) {
		dirs = append([]string{d}, dirs...)
	}
	return dirs
}

func present(root *os.Root, name string) (bool, error) {
	_, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ModuleObjects is where an agent finds the objects of the project's repository of a submodule. dir is that of the
// workspace that polis has.
func ModuleObjects(dir, module string) string {
	return filepath.Join(dir, nestedModules, module, "objects")
}

// BorrowedModules returns the submodules whose objects an agent borrows from the project, with their directories there.
func (w *Workspace) BorrowedModules(ctx context.Context, agent string, p *Project) (map[string]string, error) {
	at, err := w.places(ctx, agent)
	if err != nil || len(at.modules) == 0 || p == nil {
		return nil, err
	}
	out := map[string]string{}
	for _, m := range at.modules[:min(len(at.modules), maxNested)] {
		err := p.module(m, func(dir *os.File) error {
			_, err := nested.Borrowable(dir)
			return err
		})
		if err == nil {
			out[ModuleObjects(w.polis(), m)] = filepath.Join(p.Dir, nestedModules, m, "objects")
		} else if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, nested.ErrOdd) {
			return nil, err
		}
	}
	return out, nil
}
