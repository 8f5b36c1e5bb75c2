package maintain

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"polis/daemon/git"
)

// maxUnused bounds what one run removes; the next one goes on.
const maxUnused = 200_000

// look finds loose objects that nothing seems to need and that are older than
// the grace. It walks the whole history, and so is done before the lock.
func (m *Maintainer) look(ctx context.Context, p *plan) error {
	refs, err := m.Repo.Refs(ctx)
	if err != nil {
		return err
	}
	for _, oid := range refs {
		p.tips = append(p.tips, oid)
	}
	p.unused = map[string]bool{}
	err = m.lines(ctx, git.Cmd{Args: []string{"prune", "--dry-run", "--expire", fmt.Sprintf("@%d", p.expired.Unix()) + " +0000"}}, func(line string) {
		oid, _, _ := strings.Cut(line, " ")
		if git.IsOID(oid) && len(p.unused) < maxUnused {
			p.unused[oid] = true
		}
	})
	if err != nil || len(p.unused) == 0 {
		return err
	}
	return m.spare(ctx, p)
}

// spare takes away from the unused ones what is needed after all: what was
// reached since the refs were looked at, by refs, reflogs and indexes, or is
// named by a file of an agent's own.
func (m *Maintainer) spare(ctx context.Context, p *plan) error {
	named, err := m.named(ctx)
	if err != nil {
		return err
	}
	var in bytes.Buffer
	for _, oid := range named {
		fmt.Fprintln(&in, oid)
	}
	for _, oid := range p.tips {
		fmt.Fprintf(&in, "^%s\n", oid)
	}
	return m.lines(ctx, git.Cmd{
		Args:  []string{"rev-list", "--objects", "--all", "--reflog", "--indexed-objects", "--ignore-missing", "--stdin"},
		Stdin: &in,
	}, func(line string) {
		oid, _, _ := strings.Cut(line, " ")
		delete(p.unused, oid)
	})
}

// prune removes what is still not needed while nobody can move a ref, and
// what nobody has touched since.
func (m *Maintainer) prune(ctx context.Context, p *plan) (int, error) {
	removed, err := m.sweep(p.expired)
	if err != nil || len(p.unused) == 0 {
		return removed, err
	}
	if err := m.spare(ctx, p); err != nil {
		return removed, err
	}
	root, err := os.OpenRoot(m.objects())
	if err != nil {
		return removed, err
	}
	defer root.Close()
	var errs []error
	for oid := range p.unused {
		name := oid[:2] + "/" + oid[2:]
		// Who writes an object that is there already touches it: it is in use again.
		gone, err := removeOlder(root, name, p.expired)
		if err != nil {
			errs = append(errs, err)
		}
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
	err := m.lines(ctx, git.Cmd{Args: []string{"prune-packed", "--dry-run", "-q"}}, func(line string) {
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
func (m *Maintainer) sweep(than time.Time) (int, error) {
	root, err := os.OpenRoot(m.objects())
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
func (m *Maintainer) lines(ctx context.Context, c git.Cmd, each func(string)) error {
	r, w := io.Pipe()
	c.Stdout, c.Config, c.Timeout = w, config, m.Timeout
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := m.Repo.Do(ctx, c)
		w.CloseWithError(err) // nil is the end
		return err
	})
	group.Go(func() error {
		sc := bufio.NewScanner(r)
		sc.Buffer(make([]byte, 0, 4096), 1<<20)
		for sc.Scan() {
			each(sc.Text())
		}
		err := sc.Err()
		r.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	return group.Wait()
}
