package maintain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/git"
)

// maxUnused bounds what one run removes of a directory; the next one goes on.
const maxUnused = 200_000

// look finds loose objects that nothing seems to need and that are older than
// the grace. It walks the whole history, and so is done before the lock.
func (m *Maintainer) look(ctx context.Context, p *plan) error {
	agents, err := m.agents()
	if err != nil {
		return err
	}
	p.stores = []*store{{repo: m.Repo, dir: m.objects()}}
	if m.Internal.Dir != "" {
		p.stores = append(p.stores, &store{repo: m.Internal, dir: m.Internal.ObjectDir()})
	}
	for _, a := range agents {
		if !a.notFound {
			p.stores = append(p.stores, &store{agent: a.name, dir: a.objects})
		}
	}
	for _, s := range p.stores {
		if s.unused, err = loose(s.dir, p.expired); err != nil {
			return fmt.Errorf("look for old objects: %w", err)
		}
	}
	return m.spare(ctx, p)
}

// loose lists objects with a file of their own that is older.
func loose(dir string, than time.Time) (map[string]bool, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, d := range dirs {
		if !d.IsDir() || len(d.Name()) != 2 {
			continue
		}
		files, err := fs.ReadDir(root.FS(), d.Name())
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if id := d.Name() + f.Name(); git.IsOID(id) && len(out) < maxUnused {
				if fi, err := f.Info(); err == nil && fi.ModTime().Before(than) {
					out[id] = true
				}
			}
		}
	}
	return out, nil
}

// spare takes away from the unused ones what is needed after all.
func (m *Maintainer) spare(ctx context.Context, p *plan) error {
	shared := p.stores[0]
	refs, err := ids(ctx, m.Repo)
	if err != nil {
		return err
	}
	with, all := m.Repo, refs
	if m.Internal.Dir != "" {
		kept, err := ids(ctx, m.Internal)
		if err != nil {
			return err
		}
		// The internal repository borrows from this one.
		with.Alternates = []string{m.Internal.ObjectDir()}
		all = append(all[:len(all):len(all)], kept...)
		if err := m.reach(ctx, m.Internal, kept, nil, p.stores[1]); err != nil {
			return err
		}
	}
	if err := m.reach(ctx, with, all, nil, shared); err != nil {
		return err
	}
	agents, err := m.agents()
	if err != nil {
		return err
	}
	// The log of a branch is its agent's to write, like what else it has.
	for _, a := range append([]agent{{git: filepath.Join(m.Repo.Dir, "logs"), notFound: true}}, agents...) {
		own := p.store(a.name)
		why := m.spareNamed(ctx, a, refs, shared, own)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if why == nil {
			continue
		}
		// What it may need cannot be told: it all stays.
		shared.unused = nil
		if own != nil {
			own.unused = nil
		}
		m.doubt(p, a, why)
	}
	return nil
}

// doubt notes of whom it cannot be told what is needed.
func (m *Maintainer) doubt(p *plan, a agent, why error) {
	name := a.name
	if name == "" {
		name = "the logs of branches"
	}
	if p.doubts[name] == "" {
		m.Log.Warn("it cannot be told which objects are needed; none of them is removed", "agent", a.name, "op", "maintenance", "path", a.git, "err", why)
	}
	p.doubts[name] = why.Error()
}

// spareNamed spares what an agent's files lead to.
func (m *Maintainer) spareNamed(ctx context.Context, a agent, refs []string, stores ...*store) error {
	hash := 20
	if len(refs) > 0 {
		hash = len(refs[0]) / 2
	}
	named, err := a.named(ctx, hash)
	if err != nil {
		return err
	}
	repo := m.repo(a)
	there, err := m.present(ctx, repo, named)
	if err != nil {
		return err
	}
	return m.reach(ctx, repo, there, refs, stores...)
}

// reach spares, in all stores, what objects lead to and others do not.
func (m *Maintainer) reach(ctx context.Context, repo git.Repo, from, not []string, stores ...*store) error {
	stores = slices.DeleteFunc(slices.Clone(stores), func(s *store) bool { return s == nil || len(s.unused) == 0 })
	if len(from) == 0 || len(stores) == 0 {
		return nil
	}
	var in bytes.Buffer
	for _, id := range from {
		fmt.Fprintln(&in, id)
	}
	for _, id := range not {
		fmt.Fprintf(&in, "^%s\n", id)
	}
	return m.lines(ctx, repo, git.Cmd{Args: []string{"rev-list", "--objects", "--stdin"}, Stdin: &in}, func(line string) {
		id, _, _ := strings.Cut(line, " ")
		for _, s := range stores {
			delete(s.unused, id)
		}
	})
}

// ids are the objects that the refs of a repository name.
func ids(ctx context.Context, r git.Repo) ([]string, error) {
	refs, err := r.Refs(ctx)
	if err != nil {
		return nil, err
	}
	return slices.Sorted(maps.Values(refs)), nil
}

// prune removes what is still not needed while nobody can move a ref, and
// what nobody has touched since.
func (m *Maintainer) prune(ctx context.Context, p *plan) (int, error) {
	removed := 0
	var errs []error
	for _, s := range p.stores {
		n, err := sweep(s.dir, p.expired)
		removed += n
		errs = append(errs, err)
	}
	if !p.unused() {
		return removed, errors.Join(errs...)
	}
	if err := m.spare(ctx, p); err != nil {
		return removed, errors.Join(append(errs, err)...)
	}
	for _, s := range p.stores {
		n, err := s.remove(p.expired)
		removed += n
		errs = append(errs, err)
	}
	return removed, errors.Join(errs...)
}

// remove removes the unused objects of a store.
func (s *store) remove(than time.Time) (int, error) {
	if len(s.unused) == 0 {
		return 0, nil
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var errs []error
	removed := 0
	for id := range s.unused {
		// Who writes an object that is there already touches it: it is in use again.
		gone, err := removeOlder(root, id[:2]+"/"+id[2:], than)
		errs = append(errs, err)
		if gone {
			removed++
		}
	}
	return removed, errors.Join(errs...)
}

func removeOlder(root *os.Root, name string, than time.Time) (bool, error) {
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil || !fi.Mode().IsRegular() || !fi.ModTime().Before(than) {
		return false, err
	}
	if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// dropPacked removes loose objects that are in packs too. git could do it
// (prune-packed), but it takes empty directories along, and a git that has just
// made one for an object of its own would fail.
func (m *Maintainer) dropPacked(ctx context.Context) error {
	var names []string
	err := m.lines(ctx, m.Repo, git.Cmd{Args: []string{"prune-packed", "--dry-run", "-q"}}, func(line string) {
		// "rm -f .../objects/xx/yyyy"
		if i := strings.LastIndex(line, "objects/"); i >= 0 && git.IsOID(strings.Replace(line[i+8:], "/", "", 1)) {
			names = append(names, line[i+8:])
		}
	})
	if err != nil || len(names) == 0 {
		return err
	}
	root, err := os.OpenRoot(m.objects())
	if err != nil {
		return err
	}
	defer root.Close()
	var errs []error
	for _, name := range names {
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// sweep removes old files that a git which was killed left half written.
func sweep(dir string, than time.Time) (int, error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer root.Close()
	n := 0
	var errs []error
	dirs, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		if !d.IsDir() || d.Name() != "pack" && !fanOut(d.Name()) {
			continue
		}
		files, err := fs.ReadDir(root.FS(), d.Name())
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range files {
			if !strings.HasPrefix(f.Name(), "tmp_") && !strings.HasPrefix(f.Name(), ".tmp-") {
				continue
			}
			gone, err := removeOlder(root, d.Name()+"/"+f.Name(), than)
			errs = append(errs, err)
			if gone {
				n++
			}
		}
	}
	return n, errors.Join(errs...)
}

// fanOut says whether a directory is one of those that git keeps loose objects in.
func fanOut(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

// lines runs git and hands out its output line by line, however long it is.
func (m *Maintainer) lines(ctx context.Context, repo git.Repo, c git.Cmd, each func(string)) error {
	c.Config, c.Timeout = config, m.Timeout
	return repo.Lines(ctx, c, each)
}
