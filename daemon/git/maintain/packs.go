package maintain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"polis/daemon/api"
	"polis/daemon/git"
)

// factor is by how much a pack must outweigh all smaller ones together to be
// left alone: the number of packs then grows with the logarithm of the size.
const factor = 2

var packName = regexp.MustCompile(`^pack-(?:[0-9a-f]{40}|[0-9a-f]{64})\.pack$`)

// pack is one file of objects/pack.
type pack struct {
	name string // without extension
	size int64
}

func (m *Maintainer) objects() string { return filepath.Join(m.Repo.Dir, "objects") }

// packs lists the packs that may be replaced, smallest first.
func (m *Maintainer) packs() ([]pack, error) {
	dir := filepath.Join(m.objects(), "pack")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, e := range entries {
		names[e.Name()] = true
	}
	var out []pack
	for _, e := range entries {
		name := strings.TrimSuffix(e.Name(), ".pack")
		if !packName.MatchString(e.Name()) || names[name+".keep"] || names[name+".promisor"] || !names[name+".idx"] {
			continue
		}
		fi, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if fi.Mode().IsRegular() {
			out = append(out, pack{name, fi.Size()})
		}
	}
	sortPacks(out)
	return out, nil
}

func sortPacks(packs []pack) {
	slices.SortFunc(packs, func(a, b pack) int { return cmp.Compare(a.size, b.size) })
}

// split returns how many of the packs, smallest first, are to be joined into one: 0, or at least
// two.
func split(packs []pack) int {
	n, sum := 0, int64(0)
	for i, p := range packs {
		if i > 0 && p.size < factor*sum {
			n = i + 1
		}
		sum += p.size
	}
	return n
}

// join makes one pack of many small ones. The old ones are deleted later, under the lock.
func (m *Maintainer) join(ctx context.Context, p *plan) error {
	packs, err := m.packs()
	if err != nil {
		return err
	}
	n := split(packs)
	if n == 0 {
		return nil
	}
	var in strings.Builder
	for _, k := range packs[:n] {
		fmt.Fprintf(&in, "%s.pack\n", k.name)
	}
	out, err := m.Repo.Do(ctx, git.Cmd{Args: []string{"pack-objects", "--stdin-packs", "--delta-base-offset", "--non-empty", "-q", "objects/pack/pack"},
		Stdin: strings.NewReader(in.String()), Config: packConfig, Timeout: m.Timeout})
	if err != nil {
		return err
	}
	made := "pack-" + strings.TrimSpace(string(out))
	if !packName.MatchString(made + ".pack") {
		return fmt.Errorf("git pack-objects made %q", api.Shorten(made, 80))
	}
	// The new one must be complete before an old one may be deleted.
	if _, err := m.git(ctx, "verify-pack", "--", filepath.Join(m.objects(), "pack", made+".idx")); err != nil {
		return err
	}
	for _, k := range packs[:n] {
		if k.name != made {
			p.rolled = append(p.rolled, k.name)
		}
	}
	return nil
}

// dropPacks removes packs that were joined, the index first: git then does not open the rest.
func (m *Maintainer) dropPacks(names []string) (int, error) {
	if len(names) == 0 {
		return 0, nil
	}
	root, err := os.OpenRoot(filepath.Join(m.objects(), "pack"))
	if err != nil {
		return 0, err
	}
	defer root.Close()
	var errs []error
	n := 0
	for _, name := range names {
		if _, err := root.Lstat(name + ".keep"); err == nil {
			continue // marked to be kept since
		}
		for _, ext := range []string{".idx", ".rev", ".bitmap", ".mtimes", ".pack"} {
			if err := root.Remove(name + ext); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		n++
	}
	return n, errors.Join(errs...)
}

// measure counts objects and packs.
func (m *Maintainer) measure(ctx context.Context) (api.RepositorySize, error) {
	out, err := m.git(ctx, "count-objects", "-v")
	if err != nil {
		return api.RepositorySize{}, fmt.Errorf("measure the repository: %w", err)
	}
	var s api.RepositorySize
	for line := range strings.Lines(string(out)) {
		key, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		var n int64
		if _, err := fmt.Sscanf(text, "%d", &n); err != nil {
			continue // a field of a later git
		}
		switch key {
		case "count":
			s.LooseObjects = n
		case "size":
			s.LooseBytes = n << 10
		case "in-pack":
			s.PackedObjects = n
		case "packs":
			s.Packs = n
		case "size-pack":
			s.PackBytes = n << 10
		case "garbage":
			s.Garbage = n
		}
	}
	return s, nil
}
