package maintain

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"polis/daemon/git"
)

// maxUnused bounds what one run removes of a directory; the next run continues.
const maxUnused = 200_000

// findUnused finds loose objects that seem unneeded and are older than the grace. It walks the
// whole history, and so runs before the lock.
func (m *Maintainer) findUnused(ctx context.Context, p *plan) error {
	agents, err := m.agents()
	if err != nil {
		return err
	}
	p.stores = []*objectStore{{repo: m.Repo, dir: m.objects()}}
	if m.Internal.Dir != "" {
		p.stores = append(p.stores, &objectStore{repo: m.Internal, dir: m.Internal.ObjectDir()})
	}
	for _, a := range agents {
		if !a.notFound {
			p.stores = append(p.stores, &objectStore{agent: a.name, dir: a.objects})
		}
	}
	for _, s := range p.stores {
		if s.unused, err = loose(s.dir, p.expired); err != nil {
			return fmt.Errorf("find old objects: %w", err)
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

// prune removes, while no ref can move, the objects that are still not needed and that were not
// touched since.
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
func (s *objectStore) remove(than time.Time) (int, error) {
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
		// Writing an object that exists already touches it: it is in use again.
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

// dropPacked removes loose objects that are in packs too. git prune-packed would also remove
// empty directories, and a git that has just made one for an object of its own would fail.
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

// sweep removes old files that a killed git left half written.
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

// fanOut reports whether a directory is one in which git keeps loose objects.
func fanOut(name string) bool {
	return len(name) == 2 && strings.Trim(name, "0123456789abcdef") == ""
}

// lines runs git and passes its output line by line, however long it is.
func (m *Maintainer) lines(ctx context.Context, repo git.Repo, c git.Cmd, each func(string)) error {
	c.Config, c.Timeout = packConfig, m.Timeout
	return repo.Lines(ctx, c, each)
}
